package payment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"stampede/payment/internal/paymentdb"
	"stampede/payment/provider"
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

func newGateway(cfg Config, deps Deps) *gateway {
	g := &gateway{cfg: cfg, deps: deps, q: paymentdb.New(deps.DB), named: make(map[string]provider.Provider, len(deps.Providers)), metrics: newMetrics(deps.Metrics)}
	for _, p := range deps.Providers {
		name := p.Profile().Name
		g.metrics.know(name)
		g.named[name] = metered{Provider: p, name: name, gateway: g, trouble: new(trouble)}
	}
	return g
}

// The paths of providers' callbacks. One handler serves both; there are two
// paths because providers ask for one of each.
const (
	notifyPath       = "/api/v1/payments/{provider}/notify"
	refundNotifyPath = "/api/v1/payments/{provider}/refund-notify"
)

// callbackURL is where a provider sends its callbacks to one of these paths.
func (g *gateway) callbackURL(path, name string) string {
	return g.deps.BaseURL + strings.Replace(path, "{provider}", name, 1)
}

// provider is a configured provider. It fails, with an alarm, for one that is not any more.
func (g *gateway) provider(ctx context.Context, name string) (provider.Provider, error) {
	if p, ok := g.named[name]; ok {
		return p, nil
	}
	g.raise(ctx, alarmProviderMissing, name, "")
	return nil, fmt.Errorf("payment: the provider %s is not configured", name)
}

// ours fails, with an alarm, if a provider's message names another merchant than the shop.
func (g *gateway) ours(ctx context.Context, name, merchant string) error {
	if merchant == g.named[name].Profile().Merchant {
		return nil
	}
	g.raise(ctx, alarmForeignMerchant, name, "")
	return provider.ErrForeign
}

// raiseAbout raises the alarm about a report that contradicts the books; what it is about
// is "payment …", for example.
func (g *gateway) raiseAbout(ctx context.Context, err error, name, what, transaction string) {
	switch {
	case errors.Is(err, provider.ErrUnknown):
		g.raise(ctx, alarmUnknown, name+" "+what, "")
	case errors.Is(err, provider.ErrReused):
		g.raise(ctx, alarmTransactionReused, name+" transaction "+transaction, "")
	case errors.Is(err, provider.ErrMismatch):
		g.raise(ctx, alarmMismatch, what, "")
	}
}

// metered is a provider whose calls are bounded in time and counted.
type metered struct {
	provider.Provider
	name    string
	gateway *gateway
	trouble *trouble
}

// measured makes one call within its timeout and counts it.
func measured[T any](ctx context.Context, p metered, call string, ask func(context.Context) (T, error)) (T, error) {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := ask(limited)
	p.gateway.metrics.calls.WithLabelValues(p.name, call).Observe(time.Since(began).Seconds())
	// A refusal, or a payment that is closed, is an answer.
	if err == nil || errors.Is(err, provider.ErrRefused) || errors.Is(err, provider.ErrClosed) || errors.Is(err, provider.ErrNoLogin) {
		p.trouble.answered()
		return answer, err
	}
	p.gateway.metrics.failures.WithLabelValues(p.name, call).Inc()
	if p.trouble.failed(time.Now()) {
		// The context of the failed call may have expired.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
		defer cancel()
		p.gateway.raise(ctx, alarmProviderFailing, "provider "+p.name, call+": "+err.Error())
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
