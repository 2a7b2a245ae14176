package browse

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coocood/freecache"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"stampede/inventory"
	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/platform/base/fault"
	"stampede/platform/base/race"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/redisx"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/wire"
)

// stateReaders is how many stock states one answer reads concurrently: enough
// to hide the round trips, few enough to leave connections to the lanes.
const stateReaders = 8

// viewsEvery is how soon views are rewritten automatically after Redis lost
// them or failed over.
const viewsEvery = 2 * time.Second

// errCannotBrowse hides the cause of a failed browse request; the log has it.
var errCannotBrowse = fault.Plain(fault.Unavailable,
	fault.T("The sale cannot be shown right now; try again in a moment.", "暂时无法显示抢购信息，请稍后重试。")).After(time.Second)

// Plan is the operators' plan, as far as shoppers may see it.
type Plan interface {
	// Activity is one activity in its current state; visible is false for a draft
	// and for one that does not exist.
	Activity(ctx context.Context, id int64) (a Activity, visible bool, err error)
	// Activities are all visible activities, from one snapshot.
	Activities(ctx context.Context) ([]Activity, error)
	// Detail is what there is to read about an item beside its view; visible is false
	// for an item of a draft.
	Detail(ctx context.Context, item int64) (d Detail, visible bool, err error)
}

// Deps are the shop window's dependencies; all are required.
type Deps struct {
	Plan      Plan
	Redis     redis.UniversalClient
	Stock     *inventory.Service
	Catalogue *catalogue.Catalogue
	Clock     clock.Clock
	Log       *slog.Logger
	Metrics   prometheus.Registerer
	// CacheBytes is the memory for finished answers.
	CacheBytes int
}

// Service is the shop window. It answers from memory or Redis, without requiring
// a token. Safe for concurrent use.
type Service struct {
	deps  Deps
	views *store
	cache *browseCache
	list  sessionList
	built *prometheus.CounterVec
}

// New returns the shop window; it reads nothing yet.
func New(deps Deps) *Service {
	b := &Service{
		deps:  deps,
		views: &store{plan: deps.Plan, redis: deps.Redis, now: deps.Clock.Now, log: deps.Log},
		cache: &browseCache{kept: freecache.NewCache(race.Cache(deps.CacheBytes)), now: deps.Clock.Now},
		built: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_seckill_browse_built_total", Help: "Browse answers built from Redis because none was cached in memory.",
		}, []string{"what"}),
	}
	deps.Metrics.MustRegister(b.built)
	return b
}

// Sync writes an activity's current plan to Redis.
func (b *Service) Sync(ctx context.Context, activityID int64) error {
	return b.views.sync(ctx, activityID)
}

// Trim removes the sessions that closed before a moment.
func (b *Service) Trim(ctx context.Context, closedBefore time.Time) error {
	return b.views.trim(ctx, closedBefore)
}

// Run rewrites the views whenever Redis has lost them or may have outdated ones,
// until ctx ends.
func (b *Service) Run(ctx context.Context) error {
	takeovers := redisx.NewTakeovers(b.deps.Redis, viewTakeovers)
	return app.Loop{
		Every: viewsEvery, Log: b.deps.Log, Failed: "browse views not updated",
		Do: func(ctx context.Context) error {
			return errors.Join(b.views.ensure(ctx), takeovers.Look(ctx, b.views.renew))
		},
	}.Run(ctx)
}

// Conditional is the answer that a client already has.
type Conditional struct {
	IfNoneMatch string `header:"If-None-Match" maxLength:"1024" doc:"The ETag of the client's cached answer"`
}

type browseInput struct {
	ID string `path:"id" doc:"A decimal id"`
	Conditional
}

type shown[T any] struct {
	Status       int
	ETag         string `header:"ETag"`
	CacheControl string `header:"Cache-Control"`
	Body         document[T]
}

// cacheControl lets browsers and CDNs cache for as long as this process would.
const cacheControl = "public, max-age=1"

// Routes registers the shop window's routes and the time.
func (b *Service) Routes(api httpx.API) {
	httpx.Register(api, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/sessions", ID: "list-sessions", Tag: "shopper", Class: httpx.Sheddable,
		Summary: "Sessions that are open, will open, or closed within the last hour, in this order",
		Description: "Running sessions come first, those that close soonest at the top; then upcoming ones, those that open soonest at the top; " +
			"then ended ones, the most recently ended at the top. The following pages keep the order of the first page.",
	}, b.listSessions)
	httpx.Register(api, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/sessions/{id}", ID: "get-session", Tag: "shopper", Class: httpx.Sheddable,
		Summary: "A session with its items and their remaining units",
	}, func(ctx context.Context, in *browseInput) (*shown[shopSession], error) {
		return show[shopSession](ctx, b, "s", in, fault.T("There is no session with this id.", "没有该编号的场次。"), b.buildSession)
	})
	httpx.Register(api, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/items/{id}", ID: "get-item", Tag: "shopper", Class: httpx.Sheddable,
		Summary: "An item and its remaining units",
	}, func(ctx context.Context, in *browseInput) (*shown[shopItem], error) {
		return show[shopItem](ctx, b, "i", in, fault.T("There is no item with this id.", "没有该编号的商品。"), b.buildItem)
	})
	httpx.Register(api, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/items/{id}/detail", ID: "get-item-detail", Tag: "shopper", Class: httpx.Sheddable,
		Summary:     "What an item is: its description, pictures and the activity's rules",
		Description: "The same for everyone and rarely changed: read it once per page, and the units from the item.",
	}, func(ctx context.Context, in *browseInput) (*shown[itemDetail], error) {
		return show[itemDetail](ctx, b, "d", in, fault.T("There is no item with this id.", "没有该编号的商品。"), b.buildDetail)
	})
	httpx.Register(api, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/time", ID: "get-server-time", Tag: "shopper",
		Summary: "The server time by which sales open", Description: timeProtocol,
	}, b.time)
}

// show answers with the result of build for an id.
func show[T any](ctx context.Context, b *Service, kind string, in *browseInput, missing fault.Text,
	build func(ctx context.Context, id int64) (any, time.Time, error),
) (*shown[T], error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	r, err := b.read(ctx, kind, id, build)
	if err != nil {
		b.deps.Log.WarnContext(ctx, "browse answer failed", "kind", kind, "id", id, "error", err)
		return nil, errCannotBrowse.Because(err)
	}
	if len(r.raw) == 0 {
		return nil, fault.Plain(fault.NotFound, missing)
	}
	return answerWith[T](r, in.IfNoneMatch, b.deps.Clock.Now()), nil
}

// ItemDocument is an item as the API shows it, for the documents of the shop's pages; nil if
// nothing is published under the id.
func (b *Service) ItemDocument(ctx context.Context, id int64) ([]byte, error) {
	r, err := b.read(ctx, "i", id, b.buildItem)
	return r.raw, err
}

// read returns the answer of a kind for an id, built by build unless it is cached.
func (b *Service) read(ctx context.Context, kind string, id int64, build func(ctx context.Context, id int64) (any, time.Time, error)) (browsed, error) {
	return b.cache.get(ctx, kind+strconv.FormatInt(id, 10), func(ctx context.Context) (any, time.Time, error) {
		b.built.WithLabelValues(kind).Inc()
		return build(ctx, id)
	})
}

// answerWith sends a browse answer, or 304 to a client that already has it.
func answerWith[T any](r browsed, ifNoneMatch string, now time.Time) *shown[T] {
	out := &shown[T]{Status: http.StatusOK, ETag: r.etag, CacheControl: cacheControl, Body: document[T]{raw: r.raw, now: now}}
	if matches(ifNoneMatch, r.etag) {
		out.Status = http.StatusNotModified
	}
	return out
}

// matches compares weakly (RFC 9110 §13.1.2): a proxy may have weakened the tag.
func matches(ifNoneMatch, etag string) bool {
	for tag := range strings.SplitSeq(ifNoneMatch, ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
			return true
		}
	}
	return false
}

// buildSession builds a session's answer; nil if the session is not published.
func (b *Service) buildSession(ctx context.Context, id int64) (any, time.Time, error) {
	stored, ok, err := b.stored(ctx, id, func() (Session, bool, error) { return b.views.session(ctx, id) })
	if err != nil || !ok {
		return nil, time.Time{}, err
	}
	items, err := b.withStates(ctx, &stored)
	if err != nil {
		return nil, time.Time{}, err
	}
	now := b.deps.Clock.Now()
	view := shopSessionOf(&stored, now)
	view.Items = items
	return view, nextChange(&stored, now), nil
}

// buildItem builds an item's answer; nil if the item is not published.
func (b *Service) buildItem(ctx context.Context, id int64) (any, time.Time, error) {
	item, ok := b.deps.Catalogue.Item(id)
	if !ok {
		return nil, time.Time{}, nil
	}
	stored, ok, err := b.stored(ctx, item.SessionID, func() (Session, bool, error) { return b.views.item(ctx, item.SessionID, id) })
	if err != nil || !ok {
		return nil, time.Time{}, err
	}
	items, err := b.withStates(ctx, &stored)
	if err != nil {
		return nil, time.Time{}, err
	}
	return items[0], nextChange(&stored, b.deps.Clock.Now()), nil
}

// stored reads a view. If Redis has lost the view of a session that the
// catalogue knows, it is first rewritten, once for all requests that miss it;
// an id that was never published never causes a Postgres query.
func (b *Service) stored(ctx context.Context, sessionID int64, read func() (Session, bool, error)) (Session, bool, error) {
	s, ok, err := read()
	if err != nil || ok {
		return s, ok, err
	}
	activityID, known := b.deps.Catalogue.ActivityOf(sessionID)
	if !known {
		return s, false, nil
	}
	if err := b.views.restore(ctx, activityID); err != nil {
		return s, false, err
	}
	return read()
}

// withStates renders a session's items with their stock states in Redis.
func (b *Service) withStates(ctx context.Context, s *Session) ([]shopItem, error) {
	out := make([]shopItem, len(s.Items))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(stateReaders)
	for i := range s.Items {
		g.Go(func() error {
			stock := (&catalogue.Item{ID: int64(s.Items[i].ID), ActivityID: int64(s.ActivityID), PerActivity: s.PerActivity}).Stock()
			state, ok, err := b.deps.Stock.State(ctx, stock)
			if err != nil {
				return err
			}
			out[i] = shopItemOf(s, &s.Items[i], state, ok && state.Ready(), b.deps.Clock.Now())
			return nil
		})
	}
	return out, g.Wait()
}

// timeInput is the client's send time, by its own clock.
type timeInput struct {
	ClientSend int64 `query:"client_send" doc:"The client's clock when it sends the request, in milliseconds since any epoch; it is echoed unchanged" example:"1760000000000"`
}

// serverTime carries three of the four timestamps from which a client computes
// its offset; the fourth is the client's own when the answer arrives. The
// server's two are the same: an answer takes no time to build.
type serverTime struct {
	ServerTime    wire.Time `json:"server_time" doc:"The server's time"`
	ClientSend    int64     `json:"client_send" doc:"What the client sent as client_send, 0 if nothing" example:"1760000000000"`
	ServerReceive int64     `json:"server_receive" doc:"Unix milliseconds when the request was read" example:"1760000600003"`
	ServerSend    int64     `json:"server_send" doc:"Unix milliseconds when the answer was written" example:"1760000600003"`
}

// timeProtocol tells clients how to count down to an opening. It is the
// exchange of the Network Time Protocol, whose error is at most half the round
// trip.
const timeProtocol = "How to count down to an opening with a client whose clock may be wrong by any amount. " +
	"Send client_send = t0, your clock. The answer has server_receive = t1 and server_send = t2, the server's; t3 is your clock when it arrives. " +
	"Your offset is ((t1 - t0) + (t2 - t3)) / 2, the round trip (t3 - t0) - (t2 - t1), and the error at most half of that. " +
	"Repeat five times, keep the offset of the shortest round trip, and repeat every minute, when the page becomes visible, and shortly before usable_from: " +
	"the offset changes when a device sleeps or its clock is set. The server's time is your clock plus the offset; " +
	"read your clock from a monotonic source where you have one. " +
	"Your clock decides nothing: an early attempt is answered 425 not-started with Retry-After, and the path stays valid."

func (b *Service) time(_ context.Context, in *timeInput) (*httpx.Output[serverTime], error) {
	now := b.deps.Clock.Now()
	return httpx.Answer(serverTime{ServerTime: wire.Time(now), ClientSend: in.ClientSend, ServerReceive: now.UnixMilli(), ServerSend: now.UnixMilli()}), nil
}
