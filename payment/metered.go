package payment

import (
	"context"
	"errors"
	"time"

	"stampede/payment/provider"
	"stampede/platform/ids"
)

// metered is a provider whose calls are bounded in time and counted.
type metered struct {
	provider.Provider
	name    string
	timeout time.Duration
	m       *metrics
	trouble *trouble
	// complain asks for a person; see trouble.
	complain func(ctx context.Context, call string, err error)
}

// measure is deferred around one call.
func (p metered) measure(ctx context.Context, call string, began time.Time, err *error) {
	p.m.calls.WithLabelValues(p.name, call).Observe(time.Since(began).Seconds())
	// What the provider refuses or calls closed is an answer.
	if *err == nil || errors.Is(*err, provider.ErrRefused) || errors.Is(*err, provider.ErrClosed) {
		p.trouble.answered()
		return
	}
	p.m.failures.WithLabelValues(p.name, call).Inc()
	if p.trouble.failed(time.Now()) {
		p.complain(ctx, call, *err)
	}
}

// Create implements provider.Provider.
func (p metered) Create(ctx context.Context, c provider.Charge) (payURL string, err error) {
	defer p.measure(ctx, "create", time.Now(), &err)
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return p.Provider.Create(ctx, c)
}

// Query implements provider.Provider.
func (p metered) Query(ctx context.Context, no ids.ID) (s provider.Status, err error) {
	defer p.measure(ctx, "query", time.Now(), &err)
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return p.Provider.Query(ctx, no)
}

// Close implements provider.Provider.
func (p metered) Close(ctx context.Context, no ids.ID) (s provider.Status, err error) {
	defer p.measure(ctx, "close", time.Now(), &err)
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return p.Provider.Close(ctx, no)
}

// Refund implements provider.Provider.
func (p metered) Refund(ctx context.Context, r provider.Return) (s provider.RefundStatus, err error) {
	defer p.measure(ctx, "refund", time.Now(), &err)
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return p.Provider.Refund(ctx, r)
}
