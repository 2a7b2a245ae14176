package payment

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/order"
	"stampede/payment/provider"
	"stampede/payment/refund"
	"stampede/payment/statement"
	"stampede/payment/view"
	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/base/tracing"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/store/pulse"
	"stampede/platform/watch/tally"
)

// Deps are the module's dependencies; all but the tracer are required.
type Deps struct {
	DB      *pgxpool.Pool // the module's own pool: callbacks are answered while the rush uses every other connection
	Pulse   *pulse.Pulse  // nil: the loops ask themselves
	Standby *pg.Standby   // for lists and comparisons with statements; nil: there is none
	Orders  *order.Service
	Plan    refund.Plan
	// Providers are the ways to pay, the preferred first.
	// Without any, payment requests get payment-unavailable.
	Providers []provider.Provider
	// Practice says that some of them take no real money.
	Practice bool
	// OpenID returns a user's name in an app of a provider, or "". Nil: no user has one.
	OpenID func(ctx context.Context, user int64, app string) (string, error)
	// MakerOf returns who made the API key that acts as a user; 0 for a person. Nil: there are no keys.
	MakerOf func(ctx context.Context, user int64) (int64, error)
	// BaseURL is where providers reach this process, without a trailing slash.
	BaseURL string
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Trace   *tracing.Tracer // nil disables tracing
	Tally   *tally.Board    // counts payments and refunds by item; nil for none
}

// Service is the payment module, of these parts: the books settle what providers report,
// the closing ends open payments and then their orders, the checkout begins payments, the
// poller asks about payments whose callback has not come, and callbacks takes those that come. Safe for
// concurrent use.
type Service struct {
	*gateway
	*books
	*closing
	*checkout
	*poller
	*callbacks
	Payments *view.Reader
	// Compares the ledger with the providers' statements.
	statements *statement.Service
	expiry     *expiry
}

// New returns the module; nothing runs until its workers are started.
func New(cfg Config, deps Deps) (*Service, error) {
	if deps.DB == nil || deps.Orders == nil || deps.Plan == nil || deps.BaseURL == "" || deps.Log == nil || deps.Metrics == nil {
		return nil, errors.New("payment: every dependency is required")
	}
	g := newGateway(cfg, deps)
	b := newBooks(g)
	c := &closing{gateway: g, books: b}
	return &Service{
		gateway: g, books: b, closing: c,
		checkout:  &checkout{gateway: g, books: b, closing: c},
		poller:    &poller{gateway: g, books: b, closing: c},
		callbacks: &callbacks{gateway: g, books: b, forged: forgeries{seen: map[string]*[2]forgedCount{}}},
		Payments:  view.NewReader(deps.DB, b.chargebacks),
		expiry:    newExpiry(cfg, deps.Orders, c, deps.Log, deps.Pulse),
		statements: statement.New(statement.Deps{
			DB: deps.DB, Standby: deps.Standby, Providers: deps.Providers, Zone: cmp.Or(cfg.Zone, time.UTC), Log: deps.Log,
			SettleRefund: func(ctx context.Context, name string, r provider.RefundStatus) error {
				return b.settleRefund(ctx, name, r, asked)
			},
			Settle: func(ctx context.Context, name string, c provider.Capture) (string, error) {
				return b.settle(ctx, name, c, asked)
			},
		}),
	}, nil
}

// Window is the shortest payment window that a provider accepts; publishing an
// activity compares the activity's window with it. Providers that need longer are
// not offered for it. canPay is false without a provider.
func (s *Service) Window() (shortest time.Duration, canPay bool) {
	for i, p := range s.deps.Providers {
		if w := p.Profile().MinWindow; i == 0 || w < shortest {
			shortest = w
		}
	}
	return shortest, len(s.deps.Providers) > 0
}

// CancelRefuses are the refusals of a cancel, by a shopper or an operator.
var CancelRefuses = []*fault.Error{order.ErrNotCancelable, order.ErrClosing, ErrUnavailable}

// Routes registers the module's routes.
func (s *Service) Routes(rt *httpx.Router) {
	s.checkout.routes(rt)
	s.closing.routes(rt)
	s.Refunds.Routes(rt)
	s.statements.Routes(rt)
	s.callbacks.routes(rt)
}

// Workers returns the loops that close orders which fell due, that query payments without a callback, that process
// refunds to their end, and that fetch statements.
func (s *Service) Workers() []app.Worker {
	return append(
		s.statements.Workers(),
		app.Worker{Name: "order-expiry", Run: s.expiry.Run},
		app.Worker{Name: "payment-queries", Run: s.runQueries},
		app.Worker{Name: "payment-refunds", Run: s.runRefunds},
	)
}
