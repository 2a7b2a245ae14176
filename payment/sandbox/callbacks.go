package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"stampede/payment/sandbox/internal/sandboxdb"
	"stampede/platform/base/app"
	"stampede/platform/base/ids"
	"stampede/platform/edge/outbound"
)

const (
	// batch is how many refunds and disputes one transaction settles.
	batch = 64
	// callbackBackoffMost is the longest wait between two attempts.
	callbackBackoffMost = 5 * time.Minute
	// callbackTimeout is how long the merchant may take to answer one attempt.
	callbackTimeout = 5 * time.Second
	// callbackLease is how long a claimed callback belongs to this process.
	callbackLease = 2 * callbackTimeout
	// claimTimeout bounds a claim, which a stop waits for.
	claimTimeout = 2 * time.Second
	// forgetEvery is how often callbacks that ended a day ago are deleted, while there are new ones.
	forgetEvery = time.Minute
	// due is whether a round has something to do.
	due = `EXISTS (SELECT FROM sandbox.callbacks WHERE status = 'pending' AND next_try <= statement_timestamp())
	OR EXISTS (SELECT FROM sandbox.refunds WHERE status = 'processing' AND ready_at <= statement_timestamp())
	OR EXISTS (SELECT FROM sandbox.refunds WHERE status = 'succeeded' AND bounces_ms IS NOT NULL AND ready_at <= statement_timestamp())
	OR EXISTS (SELECT FROM sandbox.payments WHERE status = 'captured' AND behaviour IN ('chargeback_won', 'chargeback_lost')
		AND dispute_ended_at IS NULL
		AND coalesce(disputed_at, captured_at) + interval '1 second' * delay_seconds <= statement_timestamp())`
	// forgetAtMost bounds one such deletion to a few milliseconds of locks.
	forgetAtMost = 1000
)

// enqueue records a callback to a merchant that is due after delay.
func (b *Bank) enqueue(ctx context.Context, q *sandboxdb.Queries, merchant, url string, delay time.Duration, e Event) error {
	dialect, ok := b.dialects[merchant]
	if !ok {
		return fmt.Errorf("sandbox: merchant %q has no protocol here", merchant)
	}
	body, err := dialect.Callback(e)
	if err != nil {
		return fmt.Errorf("sandbox: encode callback: %w", err)
	}
	if body == nil {
		return nil
	}
	return q.CreateCallback(ctx, sandboxdb.CreateCallbackParams{ID: ids.New(), Merchant: merchant, Url: url, Body: body, DelayMs: delay.Milliseconds()})
}

// run is the worker: it makes rounds until less is due than one round takes on. A
// delivery goes on beside the following rounds, so that a merchant who hangs delays
// only his own callbacks.
func (b *Bank) run(ctx context.Context) error {
	defer b.outward.CloseIdleConnections()
	var senders sync.WaitGroup
	defer senders.Wait()
	sending := make(chan struct{}, b.cfg.Parallel)
	var forgotten time.Time
	return app.Loop{Every: b.cfg.Poll, Kick: b.wake, Due: b.pulse.Due("sandbox bank", due), Log: b.log, Failed: "sandbox bank cannot use its database, retrying", Do: func(ctx context.Context) error {
		if now := time.Now(); now.Sub(forgotten) > forgetEvery {
			forgotten = now
			if _, err := b.q.ForgetCallbacks(ctx, forgetAtMost); err != nil {
				return err
			}
		}
		for ctx.Err() == nil {
			if more, err := b.round(ctx, sending, &senders); err != nil || !more {
				return err
			}
		}
		return nil
	}}.Run(ctx)
}

// round settles refunds and disputes, and begins as many of the callbacks that are due
// as there are free senders.
func (b *Bank) round(ctx context.Context, sending chan struct{}, senders *sync.WaitGroup) (more bool, err error) {
	settled, refundErr := b.settleRefunds(ctx)
	disputed, disputeErr := b.advanceDisputes(ctx)
	free := cap(sending) - len(sending) // only this goroutine fills it
	if free == 0 {
		return max(settled, disputed) >= batch, errors.Join(refundErr, disputeErr)
	}
	// A stop must not interrupt the claim: callbacks that Postgres has already claimed would wait for
	// their lease.
	claiming, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	claimed, err := b.q.ClaimCallbacks(claiming, sandboxdb.ClaimCallbacksParams{
		LeaseMs: callbackLease.Milliseconds(), AtMost: int32(free), //nolint:gosec // a few
	})
	for _, c := range claimed {
		sending <- struct{}{}
		senders.Go(func() {
			b.deliver(ctx, c)
			busy := len(sending) == cap(sending)
			<-sending
			if busy { // more may be due than there were senders
				app.Kick(b.wake)
			}
		})
	}
	return max(settled, disputed) >= batch, errors.Join(refundErr, disputeErr, err)
}

// deliver makes one attempt and records the result. Once ctx has ended it only
// puts the callback back, so that the next process need not wait for the lease.
func (b *Bank) deliver(ctx context.Context, c sandboxdb.ClaimCallbacksRow) {
	var sendErr error
	stopped := ctx.Err() != nil
	if !stopped {
		sendErr = b.send(ctx, c)
	}
	// The result is recorded even while the process stops; a second is ample for one row.
	book, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	var err error
	switch {
	case stopped:
		err = b.q.TryAgain(book, sandboxdb.TryAgainParams{ID: c.ID, DelayMs: 0, LastError: "the bank stopped"})
	case sendErr == nil:
		b.callbacks.WithLabelValues("acknowledged").Inc()
		err = b.q.Acknowledge(book, c.ID)
	case int(c.Attempts) >= callbackAttempts:
		b.callbacks.WithLabelValues("given_up").Inc()
		b.log.WarnContext(ctx, "sandbox bank gave up on a callback", "callback", c.ID, "url", c.Url, "attempts", c.Attempts, "error", sendErr)
		err = b.q.GiveUp(book, sandboxdb.GiveUpParams{ID: c.ID, LastError: sendErr.Error()})
	default:
		b.callbacks.WithLabelValues("retried").Inc()
		err = b.q.TryAgain(book, sandboxdb.TryAgainParams{ID: c.ID, DelayMs: b.backoff(c.Attempts).Milliseconds(), LastError: sendErr.Error()})
	}
	if err != nil {
		// The lease expires and the callback is sent again; merchants handle
		// repetitions.
		b.log.WarnContext(ctx, "sandbox bank could not record a delivery", "callback", c.ID, "error", err)
	}
}

// backoff is the wait after the attempt-th failure.
func (b *Bank) backoff(attempt int32) time.Duration {
	d := b.cfg.CallbackBackoff
	for range attempt - 1 {
		if d *= 2; d >= callbackBackoffMost {
			return callbackBackoffMost
		}
	}
	return d
}

// maxAckBytes is the most that is read of the merchant's answer.
const maxAckBytes = 1 << 10

// send makes one attempt.
func (b *Bank) send(ctx context.Context, c sandboxdb.ClaimCallbacksRow) error {
	dialect, ok := b.dialects[c.Merchant]
	if !ok {
		return fmt.Errorf("sandbox: merchant %q has no protocol here", c.Merchant)
	}
	err := b.outward.Do(ctx, outbound.Request{
		URL: c.Url, Body: c.Body, Head: func(h http.Header) { dialect.Head(h, c.Body) },
	}, func(r outbound.Reply) error {
		if !dialect.Acknowledged(r) {
			return fmt.Errorf("not acknowledged, status %d, answer %.40q", r.Status, r.Body)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("sandbox: callback: %w", err)
	}
	return nil
}
