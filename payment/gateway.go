package payment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stampede/payment/internal/paymentdb"
	"stampede/payment/provider"
	"stampede/payment/refund"
)

// gateway is what the parts of the module share: the providers as this process reaches
// them, and the module's table.
type gateway struct {
	cfg     Config
	deps    Deps
	q       *paymentdb.Queries
	named   map[string]provider.Provider
	metrics *metrics
}

func newGateway(cfg Config, deps Deps) (*gateway, error) {
	g := &gateway{cfg: cfg, deps: deps, q: paymentdb.New(deps.DB), named: make(map[string]provider.Provider, len(deps.Providers)), metrics: newMetrics(deps.Metrics)}
	for _, p := range deps.Providers {
		profile := p.Profile()
		name := profile.Name
		if len(profile.Methods) == 0 {
			return nil, fmt.Errorf("payment: provider %q has no method", name)
		}
		if _, twice := g.named[name]; twice || name == "" || name == free || name == refund.ByHand {
			return nil, fmt.Errorf("payment: provider name %q is empty, reserved or used twice", name)
		}
		g.metrics.know(name)
		g.named[name] = metered{
			Provider: p, name: name, timeout: callTimeout, m: g.metrics, trouble: new(trouble), raiseAlarm: g.providerFails(name),
		}
	}
	return g, nil
}

// notifyURL and refundNotifyURL are where a provider sends its callbacks.
func (g *gateway) notifyURL(name string) string {
	return g.deps.BaseURL + "/api/v1/payments/" + name + "/notify"
}

func (g *gateway) refundNotifyURL(name string) string {
	return g.deps.BaseURL + "/api/v1/payments/" + name + "/refund-notify"
}

// metered is a provider whose calls are bounded in time and counted.
type metered struct {
	provider.Provider
	name    string
	timeout time.Duration
	m       *metrics
	trouble *trouble
	// raiseAlarm raises the alarm about the provider; see trouble.
	raiseAlarm func(ctx context.Context, call string, err error)
}

// measured makes one call within its timeout and counts it.
func measured[T any](ctx context.Context, p metered, call string, ask func(context.Context) (T, error)) (T, error) {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	answer, err := ask(limited)
	p.m.calls.WithLabelValues(p.name, call).Observe(time.Since(began).Seconds())
	// A refusal, or a payment that is closed, is an answer.
	if err == nil || errors.Is(err, provider.ErrRefused) || errors.Is(err, provider.ErrClosed) || errors.Is(err, provider.ErrNoLogin) {
		p.trouble.answered()
		return answer, err
	}
	p.m.failures.WithLabelValues(p.name, call).Inc()
	if p.trouble.failed(time.Now()) {
		p.raiseAlarm(ctx, call, err)
	}
	return answer, err
}

// Create implements provider.Provider.
func (p metered) Create(ctx context.Context, c provider.Charge) (provider.Handoff, error) {
	return measured(ctx, p, "create", func(ctx context.Context) (provider.Handoff, error) { return p.Provider.Create(ctx, c) })
}

// Query implements provider.Provider.
func (p metered) Query(ctx context.Context, of provider.Payment) (provider.Status, error) {
	return measured(ctx, p, "query", func(ctx context.Context) (provider.Status, error) { return p.Provider.Query(ctx, of) })
}

// Close implements provider.Provider.
func (p metered) Close(ctx context.Context, of provider.Payment) (provider.Status, error) {
	return measured(ctx, p, "close", func(ctx context.Context) (provider.Status, error) { return p.Provider.Close(ctx, of) })
}

// Refund implements provider.Provider.
func (p metered) Refund(ctx context.Context, r provider.Return) (provider.RefundStatus, error) {
	return measured(ctx, p, "refund", func(ctx context.Context) (provider.RefundStatus, error) { return p.Provider.Refund(ctx, r) })
}
