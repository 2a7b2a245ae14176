package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/order/disputeevent"
	"stampede/order/orderevent"
	"stampede/payment/paymentevent"
	"stampede/platform/base/app"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/store/bus"
	"stampede/platform/watch/tally"
)

// Broadcasts are what instances tell each other without storage; *bus.Bus has
// them.
type Broadcasts interface {
	OnBroadcast(subject string, fn func(data []byte)) (stop func(), err error)
}

// Deps are the module's dependencies.
type Deps struct {
	Tokens     *auth.Tokens
	Broadcasts Broadcasts
	// Announced is called with changed orders, and with those of them that are about to be
	// pushed; it may be nil.
	Announced func(ctx context.Context, changed, pushed []orderevent.Order)
	// Changed returns the orders of the user in ctx that have changed since then.
	Changed func(ctx context.Context, since time.Time) ([]orderevent.OrderView, error)
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Tally   *tally.Board // counts pushes by item; nil for none
}

// Service pushes changes of shoppers' orders.
type Service struct {
	cfg      Config
	deps     Deps
	hub      *hub
	unnamed  ratelimit.Places // connections without a valid token, which no bound per user covers
	returned returned
	// returnedEvery is the constant; tests shorten it.
	returnedEvery time.Duration
	gap           chan struct{} // a request to close the sockets that may have missed a push; buffers one
	stopping      chan struct{} // closed by EndStreams
}

type metrics struct {
	pushed prometheus.Counter
	slow   prometheus.Counter
	tally  *tally.Board
}

// New returns a Service; it starts nothing.
func New(cfg Config, deps Deps) *Service {
	auto := promauto.With(deps.Metrics)
	h := newHub(cfg, metrics{
		tally:  deps.Tally,
		pushed: auto.NewCounter(prometheus.CounterOpts{Name: "stampede_notify_pushes_total", Help: "Messages about orders written to sockets."}),
		slow:   auto.NewCounter(prometheus.CounterOpts{Name: "stampede_notify_slow_sockets_total", Help: "Sockets closed with 1013: the client could not keep up."}),
	})
	auto.NewGaugeFunc(prometheus.GaugeOpts{Name: "stampede_notify_sockets", Help: "Connections open on this instance for pushes: WebSockets and streams of server-sent events."},
		func() float64 { return float64(h.count.Load()) })
	deps.Tally.Gauge("sockets", h.count.Load)
	return &Service{cfg: cfg, deps: deps, hub: h, gap: make(chan struct{}, 1), stopping: make(chan struct{}), returnedEvery: returnedEvery}
}

// Subscriptions returns the per-instance consumers of events about orders, disputes
// and money that goes back.
func (s *Service) Subscriptions() []bus.Subscription {
	return []bus.Subscription{{
		Name: "notify-push", Filter: orderevent.SubjectAll, PerInstance: true, Layout: orderevent.Layout, Handle: s.pushChanges, Missed: s.missed,
	}, {
		Name: "notify-disputes", Filter: disputeevent.SubjectAll, PerInstance: true, // missed with the orders' interruptions
		Handle: pushing(s.hub, func(d disputeevent.Changed) (int64, any) { return d.UserID, disputeMessage{"dispute", d} }),
	}, {
		Name: "notify-surplus", Filter: paymentevent.SubjectSurplus, PerInstance: true, Handle: pushing(s.hub, surplusOf),
	}}
}

// pushChanges sends an event's orders to their owners' sockets on this instance,
// each encoded once for all sockets of its user.
func (s *Service) pushChanges(ctx context.Context, m bus.Msg) error {
	first := m.Subject == orderevent.SubjectCreated || m.Subject == orderevent.SubjectRefused
	if s.hub.count.Load() == 0 && (first || s.deps.Announced == nil) {
		return nil // an event carries thousands of orders; without sockets there is no need to decode it
	}
	changed, err := orderevent.Decode(m.Data)
	if err != nil {
		return fmt.Errorf("notify: decode %s: %w", m.Subject, err)
	}
	var pushed []orderevent.Order
	for _, o := range changed.Orders {
		if s.hub.connected(o.UserID) {
			pushed = append(pushed, o)
		}
	}
	if !first && s.deps.Announced != nil {
		s.deps.Announced(ctx, changed.Orders, pushed)
	}
	for _, o := range pushed {
		raw, err := json.Marshal(orderMessage{"order", orderevent.View(o)})
		if err != nil {
			return fmt.Errorf("notify: encode order %s: %w", o.No, err)
		}
		s.hub.push(o.UserID, outgoing{raw, o.ItemID})
	}
	return nil
}

// The messages that a client receives, each with its type.
type (
	orderMessage struct {
		Type  string               `json:"type"`
		Order orderevent.OrderView `json:"order"`
	}
	// disputeMessage comes when the shop answers or closes a dispute, or another device of the same shopper wrote.
	disputeMessage struct {
		Type    string               `json:"type"`
		Dispute disputeevent.Changed `json:"dispute"`
	}
	// surplusMessage says that a payment came too late, or twice, and goes back: the order does not change, so that no
	// other push would.
	surplusMessage struct {
		Type    string           `json:"type"`
		OrderNo ids.ID           `json:"order_no"`
		Amount  orderevent.Money `json:"amount"`
		Reason  string           `json:"reason"`
	}
)

func surplusOf(e paymentevent.Surplus) (user int64, message any) {
	return e.UserID, surplusMessage{"surplus", e.OrderNo, orderevent.Money{Amount: e.Amount, Currency: e.Currency}, e.Reason}
}

// pushing handles events about one shopper each: it sends what of makes of an event to the shopper's sockets on this
// instance.
func pushing[E any](h *hub, of func(E) (user int64, message any)) func(context.Context, bus.Msg) error {
	return func(_ context.Context, m bus.Msg) error {
		var e E
		if err := json.Unmarshal(m.Data, &e); err != nil {
			return fmt.Errorf("notify: decode %s: %w", m.Subject, err)
		}
		user, message := of(e)
		if !h.connected(user) {
			return nil
		}
		raw, err := json.Marshal(message)
		if err != nil {
			return fmt.Errorf("notify: encode %s: %w", m.Subject, err)
		}
		h.push(user, outgoing{raw: raw})
		return nil
	}
}

// Workers returns the loops that keep idle connections alive, close those of
// ended logins and those that may have missed a push, and announce returned units.
func (s *Service) Workers() []app.Worker {
	return []app.Worker{
		{Name: "notify-ping", Run: s.hub.runPings},
		{Name: "notify-revoked", Run: s.closeEnded},
		{Name: "notify-missed", Run: s.closeBehind},
		{Name: "notify-returned", Run: s.announceReturned},
	}
}

// Stop closes every socket with 1001 (going away), all concurrently, and gives
// the clients a moment to answer.
func (s *Service) Stop(ctx context.Context) error {
	s.hub.closed.Store(true)
	var group sync.WaitGroup
	for i := range s.hub.shards {
		s.hub.each(i, func(sock *socket) {
			group.Go(func() { sock.closeWith(websocket.StatusGoingAway, "the server is restarting") })
		})
	}
	ctx, cancel := context.WithTimeout(ctx, closePatience)
	defer cancel()
	_ = app.Await(ctx, group.Wait) // the close frame was sent even to clients that do not answer
	return nil
}

// closePatience is how long Stop waits for clients to answer the close. The
// library keeps waiting for the silent ones, up to 5 s, which is half of the
// time for a whole stop; they end with the process.
const closePatience = time.Second
