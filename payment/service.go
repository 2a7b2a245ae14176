package payment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/order"
	"stampede/order/orderevent"
	"stampede/payment/chargeback"
	"stampede/payment/internal/paymentdb"
	"stampede/payment/provider"
	"stampede/payment/refund"
	"stampede/payment/statement"
	"stampede/payment/view"
	"stampede/platform/base/app"
	"stampede/platform/base/tracing"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/bus"
	"stampede/platform/watch/tally"
)

// Waker is notified that an outbox row was committed, so that the relay need
// not wait for the next poll.
type Waker interface{ Wake() }

// Deps are the module's dependencies; all but the tracer are required.
type Deps struct {
	DB     *pgxpool.Pool // the module's own pool: callbacks are answered while the rush uses every other connection
	Orders *order.Service
	Plan   refund.Plan
	Outbox Waker
	// Providers are the ways to pay, the preferred first.
	// Without any, payment requests get payment-unavailable.
	Providers []provider.Provider
	// OpenID returns a user's name in an app of a provider, or "". Nil: no user has one.
	OpenID func(ctx context.Context, user int64, app string) (string, error)
	// BaseURL is where providers reach this process, without a trailing slash.
	BaseURL string
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Trace   *tracing.Tracer // nil disables tracing
	Tally   *tally.Board    // counts payments and refunds by item; nil for none
}

// Service is the payment module. Safe for concurrent use.
type Service struct {
	cfg         Config
	deps        Deps
	q           *paymentdb.Queries
	named       map[string]provider.Provider
	metrics     *metrics
	Refunds     *refund.Service
	Payments    *view.Reader
	chargebacks *chargeback.Service
	// Compares the ledger with the providers' statements.
	statements *statement.Service

	// Wakes the refund worker; capacity 1: one pending wake-up is enough.
	refundNow chan struct{}
	expiry    *expiry

	forged forgeries
}

// New returns the module; nothing runs until its workers are started.
func New(cfg Config, deps Deps) (*Service, error) {
	if deps.DB == nil || deps.Orders == nil || deps.Plan == nil || deps.Outbox == nil || deps.BaseURL == "" ||
		deps.Log == nil || deps.Metrics == nil {
		return nil, errors.New("payment: every dependency is required")
	}
	m := newMetrics(deps.Metrics)
	s := &Service{
		cfg: cfg, deps: deps, q: paymentdb.New(deps.DB), named: make(map[string]provider.Provider, len(deps.Providers)), metrics: m,
		refundNow: make(chan struct{}, 1), forged: forgeries{seen: map[string]*[2]forgedCount{}},
	}
	s.chargebacks = chargeback.New(deps.DB, s.reopen)
	s.Payments = view.NewReader(deps.DB, s.chargebacks)
	s.Refunds = refund.New(cfg.Refunds, refund.Deps{DB: deps.DB, Orders: deps.Orders, Plan: deps.Plan, Requested: s.refundRequested})
	for _, p := range deps.Providers {
		profile := p.Profile()
		name := profile.Name
		if len(profile.Methods) == 0 {
			return nil, fmt.Errorf("payment: provider %q has no method", name)
		}
		if _, twice := s.named[name]; twice || name == "" || name == free || name == refund.ByHand {
			return nil, fmt.Errorf("payment: provider name %q is empty, reserved or used twice", name)
		}
		m.know(name)
		s.named[name] = metered{
			Provider: p, name: name, timeout: callTimeout, m: m, trouble: new(trouble), raiseAlarm: s.providerFails(name),
		}
	}
	s.statements = statement.New(statement.Deps{
		DB: deps.DB, Providers: deps.Providers, Zone: cmp.Or(cfg.Zone, time.UTC), Log: deps.Log,
		SettleRefund: func(ctx context.Context, name string, r provider.RefundStatus) error {
			return s.settleRefund(ctx, name, r, asked)
		},
		Settle: func(ctx context.Context, name string, c provider.Capture) (string, error) {
			return s.settle(ctx, name, c, asked)
		},
	})
	s.expiry = newExpiry(s.cfg, deps.Orders, s, deps.Log)
	return s, nil
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

// Routes registers the module's routes.
func (s *Service) Routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/orders/{no}/payments", ID: "pay-order", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Class: httpx.Critical,
		Summary: "Start paying: where to pay, and until when",
		Description: "Send the shopper to `pay_url`, show `qr_code`, or pass `jsapi` to the provider's app, whichever the method gives. While the number is still in line the answer is `order-queued`: ask again after Retry-After. Repeating the request returns the same payment while it is open; naming another " +
			"provider, method or `coupon` closes it there first, and then `amount` is what the order costs with that coupon. An order that costs nothing is paid by this request: `status` is `captured` and there is no `pay_url`.",
		Problems: map[int]string{
			http.StatusNotFound: "not-found, not-entered", http.StatusConflict: "order-queued, order-not-payable, details-missing, order-closing, coupon-not-usable, idempotency-in-flight",
			http.StatusUnprocessableEntity: "invalid, idempotency-mismatch", http.StatusServiceUnavailable: "payment-unavailable, unknown",
		},
	}, s.start)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/orders/{no}/cancel", ID: "cancel-order", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Class: httpx.Critical,
		Summary: "Cancel an unpaid order",
		Description: "Closes an open payment at its provider first. If the money was faster the order is paid and the answer is " +
			"`order-not-cancelable`. While the provider gives no answer it is `payment-unavailable`: the order stays as it is, " +
			"and can be paid or canceled again.",
		Problems: map[int]string{
			http.StatusNotFound: "not-found, not-entered", http.StatusConflict: "order-queued, order-not-cancelable, order-closing",
			http.StatusServiceUnavailable: "payment-unavailable, unknown",
		},
	}, s.cancel)
	s.Refunds.Routes(rt)
	s.methodRoutes(rt)
	s.statements.Routes(rt)
	s.callbackRoutes(rt)
}

// Subscriptions are the module's subscriptions to EVENTS.
func (s *Service) Subscriptions() []bus.Subscription {
	// One instance's sweeper is enough; the others have their own tick.
	return []bus.Subscription{{Name: "order-due", Filter: orderevent.SubjectDue, Handle: s.expiry.wake}}
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

// notifyURL and refundNotifyURL are where a provider sends its callbacks.
func (s *Service) notifyURL(name string) string {
	return s.deps.BaseURL + "/api/v1/payments/" + name + "/notify"
}

func (s *Service) refundNotifyURL(name string) string {
	return s.deps.BaseURL + "/api/v1/payments/" + name + "/refund-notify"
}

// wakeRefunds wakes the refund worker. It never blocks.
func (s *Service) wakeRefunds() {
	select {
	case s.refundNow <- struct{}{}:
	default: // a wake-up is pending already
	}
}
