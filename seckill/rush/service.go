package rush

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"stampede/inventory"
	"stampede/inventory/inventoryevent"
	"stampede/order/orderevent"
	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/base/tracing"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/store/bus"
	"stampede/platform/watch/tally"
	"stampede/seckill/catalogue"
	"stampede/seckill/queue"
)

// Orders queries orders by number; order implements it and main wires it,
// because seckill does not import order.
type Orders interface {
	// Statuses returns the status of each number that Postgres has a row for.
	Statuses(ctx context.Context, nos []ids.ID) (map[ids.ID]string, error)
	// Get returns an order from the cache or Postgres; false when it has none.
	Get(ctx context.Context, no ids.ID) (orderevent.Order, bool, error)
}

// Deps are the dependencies of a rush; all are required unless stated
// otherwise.
type Deps struct {
	Catalogue *catalogue.Catalogue
	Places    *Places // of the same catalogue
	Grants    *queue.Queue
	Bus       *bus.Bus
	Redis     redis.UniversalClient // for the turns of items with an admission rate
	Stock     *inventory.Service
	Orders    Orders
	Clock     clock.Clock // the Redis server's time, by estimate
	Log       *slog.Logger
	Metrics   prometheus.Registerer
	// SigningKey is the process's key, from which the key for paths is derived.
	SigningKey []byte
	// ShortestPay is the shortest payment window that every provider in use
	// accepts; no path gives less.
	ShortestPay time.Duration
	Trace       *tracing.Tracer // nil is off
	Tally       *tally.Board    // merges what every instance counts; nil for none
	// Admit decides who gets a path; nil admits every user.
	Admit DoorCheck
	// Refuses are the refusals of Admit.
	Refuses []*fault.Error
	// Paused returns how long a user has to wait for the next attempt in an
	// activity, 0 for most users. Paths issued before the pause are refused by it. It
	// is called for every rush: it must read only memory. nil means no user waits.
	Paused func(user, activity int64, now time.Time) time.Duration
}

// Service issues paths and takes rushes. Safe for concurrent use.
type Service struct {
	cfg       Config
	deps      Deps
	catalogue *catalogue.Catalogue
	clock     clock.Clock
	keys      *pathKeys
	places    *Places
	lanes     *lanes
	metrics   *metrics
	strangers *rate.Limiter
	repeats   *ratelimit.Repeats // limits how often a user sends rushes; nil is no limit
}

// New returns a rush over the catalogue's items. It reads nothing yet.
func New(cfg Config, deps Deps) (*Service, error) {
	if deps.Catalogue == nil || deps.Places == nil || deps.Grants == nil || deps.Bus == nil || deps.Redis == nil || deps.Stock == nil ||
		deps.Orders == nil || deps.Clock == nil || deps.Log == nil || deps.Metrics == nil {
		return nil, errors.New("seckill: a dependency of the rush is missing")
	}
	ring, err := newPathKeys(append([][]byte{deps.SigningKey}, cfg.PreviousSigningKeys...)...)
	if err != nil {
		return nil, err
	}
	ls := &lanes{
		cfg: cfg, catalogue: deps.Catalogue, stock: deps.Stock, grants: deps.Grants,
		redis: deps.Redis, numbers: deps.Places.numbers,
		clock: deps.Clock, log: deps.Log, trace: deps.Trace,
	}
	if ls.metrics, err = newMetrics(deps.Metrics, deps.Tally, ls.depths); err != nil {
		return nil, fmt.Errorf("seckill: register the rush's metrics: %w", err)
	}
	deps.Tally.From(func(add func(item int64, stage, code string, n int64)) {
		ls.metrics.handOver(add)
		ls.metrics.trim(func(item int64) bool { _, ok := deps.Catalogue.Item(item); return ok })
	})
	repeats, err := ratelimit.NewRepeats(cfg.RushesPerSecond)
	if err != nil {
		return nil, err
	}
	return &Service{
		cfg: cfg, deps: deps, repeats: repeats, catalogue: deps.Catalogue, clock: deps.Clock,
		keys: ring, places: deps.Places, lanes: ls, metrics: ls.metrics, strangers: rate.NewLimiter(strangerRate, strangerRate),
	}, nil
}

// Worker keeps the lanes.
func (r *Service) Worker() app.Worker { return app.Worker{Name: "seckill-lanes", Run: r.keepLanes} }

// laneCare is how often lanes are maintained. The lane of an item that has left
// the catalogue costs two sleeping goroutines, so there is no hurry.
const laneCare = 2 * time.Second

// keepLanes listens for returned units, ends the lanes of items that have left
// the catalogue, and drains all of them when ctx ends. Handlers must be done by
// then: the process stops serving before it stops its workers.
func (r *Service) keepLanes(ctx context.Context) error {
	r.lanes.draining.Store(false)
	for _, subject := range []string{inventoryevent.SubjectReturned, inventoryevent.SubjectLoaded} {
		stop, err := r.deps.Bus.OnBroadcast(subject, func(data []byte) { r.lanes.onReturned(subject, data) })
		if err != nil {
			return fmt.Errorf("seckill: listen to %s: %w", subject, err)
		}
		defer stop() //nolint:gocritic // two of them, for as long as the lanes
	}
	defer r.lanes.drain()
	return app.Loop{Every: laneCare, Do: func(context.Context) error {
		r.lanes.endGone(func(item int64) bool {
			it, ok := r.catalogue.Item(item)
			return ok && it.OnSale
		})
		return nil
	}}.Run(ctx)
}

// Routes registers the routes of rushes. The rush itself runs outside all
// middleware and is documented manually.
func (r *Service) Routes(rt *httpx.Router) {
	rt.Direct(rushPrefix, r.Answer, r.cfg.rushLimit())
	rt.API.Member("order_no", huma.Schema{
		Type: huma.TypeString, Description: "The number that holds the units, in an already-bought problem",
		Examples: []any{"0199a1b2c3d47e8f90a1b2c3d4e5f607"},
	})
	rt.API.Member("position", huma.Schema{
		Type: huma.TypeInteger, Description: "The place in line, in a wait-your-turn problem: 1 is the next. It never rises", Examples: []any{120},
	})
	rt.API.Member("estimated_seconds", huma.Schema{
		Type: huma.TypeInteger, Description: "When that place's turn comes at the present rate; absent while the shop lets no one in", Examples: []any{6},
	})
	r.registerIssue(rt.API)
	document(rt.API.Huma)
}

// document adds the plain handler to the OpenAPI document.
func document(api huma.API) {
	doc := api.OpenAPI()
	ticket := doc.Components.Schemas.Schema(reflect.TypeFor[Ticket](), true, "Ticket")
	var refused []*fault.Error
	for _, refusal := range refusals { // the table that answers, so that none can be missing here
		if refusal != nil {
			refused = append(refused, refusal)
		}
	}
	responses := httpx.Refusals(api, refused)
	responses["202"] = &huma.Response{
		Description: "In line under order_no, or the order's status if this path was sent before. Queued does not mean won: query the order.",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: ticket}},
	}
	doc.AddOperation(&huma.Operation{
		Method: http.MethodPost, Path: rushPrefix + "{path}", OperationID: "rush", Tags: []string{"shopper"},
		Summary: "Rush",
		Description: "One path is one attempt. Send it from usable_from on, without a body; it needs no token, the path is the credential. " +
			"Sending it again gives the same answer, even if the first answer was lost: a 202, or 409 already-bought with the number in order_no. " +
			"After 503 unknown query GET /api/v1/orders/{order_no}; after every other refusal with Retry-After the same path may be sent again. " +
			"After 429 wait-your-turn that is what keeps the place: `position` and `estimated_seconds` say how far it is, and the place is the user's, so that a new path keeps it too.",
		Parameters: []*huma.Param{{
			Name: "path", In: "path", Required: true, Description: "path of POST /api/v1/items/{id}/rush-path",
			Schema: &huma.Schema{Type: huma.TypeString, MinLength: new(pathTextBytes), MaxLength: new(pathTextBytes)},
		}},
		Responses: responses,
	})
}
