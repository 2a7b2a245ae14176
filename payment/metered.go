package payment

import (
	"context"
	"errors"
	"time"

	"stampede/payment/provider"
)

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
