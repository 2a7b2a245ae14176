package order

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"stampede/platform/store/bus"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/deadletters"
	"stampede/seckill/seckillevent"
)

const (
	// firstRetry is the first pause after Postgres failed a transaction.
	firstRetry = 50 * time.Millisecond
	// attemptTimeout bounds one transaction: if Postgres hangs, the writer cancels
	// and retries.
	attemptTimeout = 10 * time.Second
	// stopGrace is how long the writer may still work after it was stopped, on
	// everything that it has fetched; then its transaction is rolled back, and the
	// rest is redelivered elsewhere. It fits well into the 10 s in which a process
	// has to exit.
	stopGrace = 3 * time.Second
)

// writer makes orders of grants. Safe for concurrent use, but there is one loop.
type writer struct {
	core
	aside aside
	late  alarm.Late // alarms that Postgres did not accept
}

// message is one message on GRANTS as the writer handles it.
type message struct {
	bus.Msg
	batch *seckillevent.Batch
}

// run is the order-writer worker.
func (w *writer) run(ctx context.Context) error {
	defer w.aside.working.Wait()
	return w.deps.Grants.Consume(ctx, func(handling context.Context, received []bus.Msg) {
		w.write(handling, ctx.Done(), received)
	})
}

// write turns messages into orders and acknowledges each once its effect is
// committed. It retries until Postgres accepts them or stop closes; messages
// that are not acknowledged stopGrace after that are redelivered. Messages of an
// item whose stock row is locked are set aside.
func (w *writer) write(ctx context.Context, stop <-chan struct{}, received []bus.Msg) {
	outer := ctx // for what is set aside, which outlives this call
	ctx, cancel := untilStopped(ctx, stop)
	defer cancel()
	messages := make([]message, 0, len(received))
	var newer []bus.Msg
	for _, m := range received {
		batch := new(seckillevent.Batch)
		switch err := batch.Decode(m.Data); {
		case err == nil:
		case errors.Is(err, seckillevent.ErrNewer):
			newer = append(newer, m)
			continue
		default:
			w.bury(ctx, stop, m, err)
			continue
		}
		if bad := takeBad(batch); len(bad) > 0 && !w.buryEntries(ctx, stop, m, batch, bad) {
			continue
		}
		messages = append(messages, message{Msg: m, batch: batch})
	}
	w.leave(ctx, newer)
	// Entries are taken in stream order, which redelivery may have changed.
	slices.SortStableFunc(messages, func(a, b message) int { return cmp.Compare(a.Seq, b.Seq) })
	messages = w.aside.follow(messages)
	for len(messages) > 0 && ctx.Err() == nil {
		n := w.together(messages)
		switch w.writeTogether(ctx, stop, messages[:n], w.cfg.LockWait) {
		case stopped:
			return
		case locked:
			w.setAside(outer, stop, messages[:n])
			messages = append(messages[:n:n], w.aside.follow(messages[n:])...)
		case committed:
		}
		messages = messages[n:]
	}
}

// together returns how many of the messages go into one transaction.
func (w *writer) together(messages []message) (n int) {
	entries := 0
	for n < len(messages) && (n == 0 || entries+len(messages[n].batch.Grants) <= w.cfg.MaxOrdersPerTx) {
		entries += len(messages[n].batch.Grants)
		n++
	}
	return n
}

// ending is what became of a set of messages.
type ending uint8

const (
	committed ending = iota
	stopped          // before the commit
	locked           // another transaction kept a lock for longer than the set may wait
)

// writeTogether settles messages in one transaction, which waits at most
// lockWait for a lock, and retries other failures until it is committed or
// stopped.
func (w *writer) writeTogether(ctx context.Context, stop <-chan struct{}, messages []message, lockWait time.Duration) (end ending) {
	began := time.Now()
	if w.deps.Trace.On() {
		followed, span := w.followMessages(ctx, messages)
		ctx = followed
		defer func() { span.End(notWritten[end]) }()
	}
	how, failures := optimistic, 0
	for delay := firstRetry; ; {
		out, err := w.attempt(ctx, messages, how, lockWait)
		switch {
		case err == nil:
			w.metrics.writeTime.Observe(time.Since(began).Seconds())
			if failures >= stuckAttempts {
				w.unstuck(context.WithoutCancel(ctx))
			}
			// Even while stopping: what is committed is announced and acknowledged.
			w.afterCommit(context.WithoutCancel(ctx), messages, out)
			return committed
		case pg.ViolatesUnique(err, "") && how == optimistic:
			how = careful
			continue
		case pg.ViolatesCheck(err, "never_oversold") && how < rationed:
			w.deps.Log.WarnContext(ctx, "more units granted than Postgres has, accepting them one by one", "messages", len(messages))
			how = rationed
			continue
		case badData(err) && len(messages) > 1:
			// One message contains data that Postgres cannot store. Settled alone, each
			// of the others succeeds. A message that is settled twice is known.
			for i := range messages {
				if ctx.Err() != nil {
					return stopped
				}
				if end := w.writeTogether(ctx, stop, messages[i:i+1], lockWait); end != committed {
					return end
				}
			}
			return committed
		case badData(err):
			if !w.bury(ctx, stop, messages[0].Msg, err) {
				return stopped
			}
			return committed
		}
		w.metrics.writeErrors.Inc()
		if pg.LockTimedOut(err) && ctx.Err() == nil {
			w.deps.Log.DebugContext(ctx, "orders not written, a row is locked", "messages", len(messages), "error", err)
			return locked
		}
		w.deps.Log.WarnContext(ctx, "orders not written, trying again", "messages", len(messages), "retry_in", delay, "error", err)
		if failures++; failures >= stuckAttempts {
			w.raiseAlarm(ctx, stuckSubject, fmt.Sprintf("%d messages, the first about item %d, failed %d times: %v", len(messages), messages[0].batch.ItemID, failures, err))
		}
		if !pause(stop, delay) {
			return stopped
		}
		delay = min(2*delay, w.cfg.MaxRetryDelay)
	}
}

// untilStopped returns a context that ends stopGrace after stop closes.
func untilStopped(ctx context.Context, stop <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-ctx.Done():
		case <-stop:
			time.AfterFunc(stopGrace, cancel)
		}
	}()
	return ctx, cancel
}

// attempt runs one transaction under its own deadline.
func (w *writer) attempt(ctx context.Context, messages []message, how care, lockWait time.Duration) (settled, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	batches := make([]*seckillevent.Batch, len(messages))
	for i, m := range messages {
		batches[i] = m.batch
	}
	var out settled
	err := pg.InTxWaiting(ctx, w.deps.DB, lockWait, func(tx pgx.Tx) error {
		var err error
		out, err = w.settle(ctx, tx, batches, how)
		return err
	})
	if err != nil {
		return settled{}, fmt.Errorf("order: write: %w", err)
	}
	return out, nil
}

// bury stores a message as a dead letter and acknowledges it, retrying until
// Postgres accepts it: a message that was not stored is not acknowledged. It
// returns false if it was stopped before.
func (w *writer) bury(ctx context.Context, stop <-chan struct{}, m bus.Msg, cause error) bool {
	if !w.keepDead(ctx, stop, m, cause) {
		return false
	}
	w.metrics.written.WithLabelValues("malformed").Inc()
	w.ack(ctx, m)
	return true
}

// buryEntries stores a message's bad entries as a dead letter; the rest of the
// message is processed. The dead letter is a new batch, whose id is derived
// from the message's so that a redelivery does not store them twice. The id
// counts up: when a redriven letter is stored again, its id must not be one
// that the inbox knows already.
func (w *writer) buryEntries(ctx context.Context, stop <-chan struct{}, m bus.Msg, batch *seckillevent.Batch, bad []seckillevent.Grant) bool {
	dead := *batch
	dead.ID[15]++
	dead.Grants = bad
	m.ID, m.Data = dead.ID, dead.Encode(nil)
	w.metrics.written.WithLabelValues("malformed").Add(float64(len(bad)))
	return w.keepDead(ctx, stop, m, fmt.Errorf("%d grants that cannot be orders: %w", len(bad), seckillevent.ErrMalformed))
}

func (w *writer) keepDead(ctx context.Context, stop <-chan struct{}, m bus.Msg, cause error) bool {
	w.deps.Log.ErrorContext(ctx, "grants cannot be written, storing them as a dead letter", "subject", m.Subject, "message_id", m.ID, "error", cause)
	for delay := firstRetry; ; delay = min(2*delay, w.cfg.MaxRetryDelay) {
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := deadletters.Keep(attempt, w.deps.DB, writerName, m, cause)
		cancel()
		if err == nil {
			return true
		}
		w.deps.Log.WarnContext(ctx, "dead letter not stored, retrying", "retry_in", delay, "error", err)
		if !pause(stop, delay) {
			return false
		}
	}
}

// takeBad removes from the batch the grants that cannot become orders, and
// returns them. The others must not suffer for them.
func takeBad(b *seckillevent.Batch) (bad []seckillevent.Grant) {
	isBad := func(g seckillevent.Grant) bool { return !sensible(g) }
	if !slices.ContainsFunc(b.Grants, isBad) {
		return nil
	}
	bad = slices.DeleteFunc(slices.Clone(b.Grants), sensible)
	b.Grants = slices.DeleteFunc(b.Grants, isBad)
	return bad
}

// badData reports whether err blames the data and not the database: SQLSTATE
// class 22 (data exception) or 23 (integrity violation). Retrying cannot help
// then. A violation of the stock's own CHECK does not count.
func badData(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && (strings.HasPrefix(pgErr.Code, "22") || strings.HasPrefix(pgErr.Code, "23")) &&
		!pg.ViolatesCheck(err, "never_oversold")
}

// pause waits for about d, with jitter so that instances do not retry together.
// It returns false if stop closed first.
func pause(stop <-chan struct{}, d time.Duration) bool {
	select {
	case <-stop:
		return false
	case <-time.After(d/2 + rand.N(d)): //nolint:gosec // jitter needs no secrecy
		return true
	}
}
