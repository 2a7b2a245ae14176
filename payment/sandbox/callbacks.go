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
	// batch is how many refunds one transaction settles, and how many callbacks
	// wait in memory at most: enough to keep every sender busy between two claims.
	batch = 64
	// callbackBackoffMost is the longest wait between two attempts.
	callbackBackoffMost = 5 * time.Minute
	// callbackTimeout is how long the merchant may take to answer one attempt.
	callbackTimeout = 5 * time.Second
	// claimTimeout bounds a claim, which a stop waits for.
	claimTimeout = 2 * time.Second
	// forgetEvery is how often callbacks that ended a day ago are deleted.
	forgetEvery = time.Minute
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

// run is the worker: one goroutine claims what is due and passes it to a fixed
// number of senders through due, which it alone writes and closes.
func (b *Bank) run(ctx context.Context) error {
	due := make(chan sandboxdb.ClaimCallbacksRow, batch)
	var senders sync.WaitGroup
	for range b.cfg.Parallel {
		senders.Go(func() {
			for c := range due {
				b.deliver(ctx, c)
			}
		})
	}
	defer b.outward.CloseIdleConnections()
	defer senders.Wait()
	defer close(due)

	var forgotten time.Time
	return app.Loop{Every: b.cfg.Poll, Kick: b.wake, Log: b.log, Failed: "sandbox bank cannot use its database, retrying", Do: func(ctx context.Context) error {
		err := b.round(ctx, due)
		if now := time.Now(); now.Sub(forgotten) > forgetEvery {
			forgotten = now
			_, forgetErr := b.q.ForgetCallbacks(ctx, forgetAtMost)
			err = errors.Join(err, forgetErr)
		}
		return err
	}}.Run(ctx)
}

// round settles refunds and disputes, and fills due with what may be sent now.
func (b *Bank) round(ctx context.Context, due chan<- sandboxdb.ClaimCallbacksRow) error {
	settled, refundErr := b.settleRefunds(ctx)
	disputed, disputeErr := b.advanceDisputes(ctx)
	refundErr = errors.Join(refundErr, disputeErr)
	if max(settled, disputed) >= batch {
		b.nudge()
	}
	free := cap(due) - len(due)
	if free == 0 {
		b.behind.Store(true)
		return refundErr
	}
	// A stop must not interrupt the claim: callbacks that Postgres has already claimed would wait for
	// their lease.
	claiming, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	claimed, err := b.q.ClaimCallbacks(claiming, sandboxdb.ClaimCallbacksParams{LeaseMs: b.lease().Milliseconds(), AtMost: int32(free)})
	for _, c := range claimed {
		due <- c // never blocks: this is the only writer, and free was the room left
	}
	// More may be due than there was room for: the next sender to finish wakes the
	// worker.
	b.behind.Store(len(claimed) == free)
	return errors.Join(refundErr, err)
}

// lease is how long a claimed callback belongs to this process: its wait in due
// behind a full buffer of slow deliveries, plus its own delivery.
func (b *Bank) lease() time.Duration {
	return time.Duration(batch/b.cfg.Parallel+2) * callbackTimeout
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
	if b.behind.Load() {
		b.nudge()
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
