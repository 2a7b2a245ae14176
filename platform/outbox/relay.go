package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/alarm"
	"stampede/platform/bus"
	"stampede/platform/failpoint"
	"stampede/platform/ids"
)

const (
	// pollEvery finds rows whose wake-up got lost or went to another instance.
	pollEvery = 200 * time.Millisecond
	// takenPause is how soon a woken relay asks again while another one has the
	// lock: that one may have looked before the commit that woke this one.
	takenPause = 20 * time.Millisecond
	// windowRows is what one transaction publishes: at 3,500 synced messages a
	// second it is open for some 80 ms.
	windowRows = 256
	// windowBytes bounds the memory of a window whose rows are large.
	windowBytes = 8 << 20
	// firstBackoff and mostBackoff pace the tries while the bus or Postgres does
	// not answer. The most is what an event may be late after the end of an outage.
	firstBackoff = 50 * time.Millisecond
	mostBackoff  = 5 * time.Second
	// storeTimeout bounds what a window asks of Postgres before it publishes, and
	// again after: milliseconds of work. A Postgres that hangs is given up on.
	storeTimeout = 10 * time.Second
	// stopGrace is what is left for sending after ctx has ended. It is a small
	// part of the 10 s in which a process has to be gone; what does not fit in
	// waits for the next start.
	stopGrace = 3 * time.Second
	// asideFor is how long a refused row waits for an operator to act.
	asideFor = time.Minute
	// asideMost bounds the memory for refused rows; Append lets none through that
	// the default settings refuse.
	asideMost = 1000
	// relayLock is the key of the advisory lock, in the range that
	// pg_advisory locks by one number share with the rest of the database.
	relayLock = 0x6f7574626f78 // "outbox"
)

// Relay publishes the outbox. One per process; make it with New.
type Relay struct {
	pool *pgxpool.Pool
	bus  *bus.Bus
	log  *slog.Logger
	wake chan struct{} // holds one wake-up

	// Of Run's goroutine:
	aside    map[ids.ID]time.Time // refused rows and when to try them again
	recalled time.Time            // the making of EVENTS that recall is done with
	recallAt time.Time            // not before, after a failure

	sent    prometheus.Counter
	again   prometheus.Counter
	failed  prometheus.Counter
	refused prometheus.Counter
	lag     prometheus.Gauge

	margin time.Duration // recallMargin, except in tests

	// published, where set, runs between publishing a window and marking it: the
	// place where a test lets the process die.
	published func() error
}

// New makes a relay. It takes one connection of pool while it publishes.
// metrics may be nil.
func New(pool *pgxpool.Pool, b *bus.Bus, log *slog.Logger, metrics prometheus.Registerer) *Relay {
	r := &Relay{
		pool: pool, bus: b, log: log,
		wake:   make(chan struct{}, 1),
		margin: recallMargin,
		aside:  make(map[ids.ID]time.Time),
		sent: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stampede_outbox_sent_total", Help: "Outbox rows published and marked.",
		}),
		again: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stampede_outbox_recalled_total", Help: "Outbox rows unmarked because EVENTS was lost after they were sent.",
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stampede_outbox_failures_total", Help: "Windows that were not published or not marked and come again.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stampede_outbox_refused_total", Help: "Outbox rows that the bus does not take.",
		}),
		lag: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "stampede_outbox_lag_seconds", Help: "Age of the oldest row in the last window of the relay that has the lock.",
		}),
	}
	if metrics != nil {
		metrics.MustRegister(r.sent, r.again, r.failed, r.refused, r.lag)
	}
	return r
}

// Wake tells the relay that a row was committed. It never blocks.
func (r *Relay) Wake() {
	select {
	case r.wake <- struct{}{}:
	default: // one is waiting, which finds this row as well
	}
}

// Run publishes until ctx ends and then returns nil. The window under way is
// finished and what else waits is sent first, within 3 s. No error ends it.
func (r *Relay) Run(ctx context.Context) error {
	work, end := workUntil(ctx)
	defer end()
	pause := time.Duration(0)
	for ctx.Err() == nil {
		r.recall(work)
		outcome, err := r.window(work)
		switch {
		case err != nil && ctx.Err() == nil:
			pause = min(max(2*pause, firstBackoff), mostBackoff)
			r.failed.Inc()
			r.log.WarnContext(ctx, "outbox window failed and will be tried again", "error", err, "pause", pause.String())
			r.sleep(ctx, pause, nil)
			continue
		case outcome == more:
			pause = 0
			continue
		case outcome == taken:
			// Once woken, ask again soon, for as long as the other may be busy with
			// what it saw before.
			if r.sleep(ctx, pollEvery, r.wake) {
				r.Wake()
				r.sleep(ctx, takenPause, nil)
			}
		default:
			r.sleep(ctx, pollEvery, r.wake)
		}
		pause = 0
	}
	// What others committed while they stopped. Its first failure is the last: the
	// rows are safe where they are.
	for {
		left, err := r.window(work)
		if err != nil {
			r.log.WarnContext(work, "outbox not emptied before the stop, the rest goes out later", "error", err)
		}
		if err != nil || left != more {
			return nil
		}
	}
}

// workUntil returns a context that outlives ctx by stopGrace: a window that was
// begun is finished, since its events are on the bus and marking them spares
// everyone the duplicates, but nothing that hangs holds up the stop.
func workUntil(ctx context.Context) (work context.Context, end func()) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	forget := context.AfterFunc(ctx, func() {
		grace := time.AfterFunc(stopGrace, cancel)
		context.AfterFunc(work, func() { grace.Stop() })
	})
	return work, func() { forget(); cancel() }
}

// sleep waits for d, for a wake-up, which it reports, or for the end of ctx.
func (r *Relay) sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) (woken bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-wake:
		return true
	}
	return false
}

// outcome says what to do after a window.
type outcome uint8

const (
	idle  outcome = iota // nothing waits
	more                 // there may be more at once
	taken                // another relay is at work
)

// row is one unsent event.
type row struct {
	Day     time.Time
	ID      ids.ID
	Subject string
	Payload []byte
	Trace   string
	Age     float64 // seconds, by Postgres's clock
}

// window publishes and marks the oldest unsent rows in one transaction.
func (r *Relay) window(ctx context.Context) (outcome, error) {
	// Two deadlines with the publishing, which has its own, in between.
	reading, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	tx, err := r.pool.Begin(reading)
	if err != nil {
		return idle, fmt.Errorf("outbox: begin: %w", err)
	}
	defer func() {
		ending, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		rollback(ending, tx)
	}()
	mine, err := tryLock(reading, tx)
	if err != nil {
		return idle, err
	}
	if !mine {
		r.lag.Set(0) // the other one reports it
		return taken, nil
	}
	rows, err := r.unsent(reading, tx)
	if err != nil {
		return idle, err
	}
	if len(rows) == 0 {
		r.lag.Set(0)
		return idle, nil
	}
	r.lag.Set(rows[0].Age)

	sent, err := r.publish(ctx, tx, rows)
	marking, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if r.published != nil {
		if err := r.published(); err != nil {
			return idle, err
		}
	}
	if err := failpoint.RelayPublished.Err(); err != nil {
		return idle, err
	}
	if markErr := mark(marking, tx, sent); markErr != nil {
		return idle, errors.Join(err, markErr)
	}
	if commitErr := tx.Commit(marking); commitErr != nil {
		return idle, errors.Join(err, fmt.Errorf("outbox: commit: %w", commitErr))
	}
	r.sent.Add(float64(len(sent)))
	return more, err
}

// unsent reads the oldest rows that are not set aside, bounded in number and
// in bytes, but at least one.
func (r *Relay) unsent(ctx context.Context, tx pgx.Tx) ([]row, error) {
	now := time.Now()
	skip := make([]ids.ID, 0, len(r.aside))
	for id, until := range r.aside {
		if now.After(until) {
			delete(r.aside, id)
		} else {
			skip = append(skip, id)
		}
	}
	found, err := tx.Query(ctx, `
		SELECT day, id, subject, payload, coalesce(trace, ''), extract(epoch FROM clock_timestamp() - created_at)::float8 FROM (
			SELECT o.*, sum(octet_length(payload)) OVER (ORDER BY id) - octet_length(payload) AS before FROM (
				SELECT day, id, subject, payload, trace, created_at FROM platform.outbox
				WHERE sent_at IS NULL AND id <> ALL($1) ORDER BY id LIMIT $2
			) o
		) w WHERE before < $3 ORDER BY id`, skip, windowRows, int64(windowBytes))
	if err != nil {
		return nil, fmt.Errorf("outbox: read unsent rows: %w", err)
	}
	rows, err := pgx.CollectRows(found, pgx.RowToStructByPos[row])
	if err != nil {
		return nil, fmt.Errorf("outbox: read unsent rows: %w", err)
	}
	return rows, nil
}

// publish sends the rows and returns those that are stored on the bus, with
// the reason when others are not.
func (r *Relay) publish(ctx context.Context, tx pgx.Tx, rows []row) ([]row, error) {
	out := make([]bus.Outgoing, len(rows))
	for i, w := range rows {
		out[i] = bus.Outgoing{Subject: w.Subject, ID: w.ID, Data: w.Payload, Trace: w.Trace}
	}
	sent := make([]row, 0, len(rows))
	var first error // all that wait behind one cause say the same
	for i, err := range r.bus.PublishAll(ctx, out) {
		switch {
		case err == nil:
			sent = append(sent, rows[i])
		case errors.Is(err, bus.ErrRefused):
			if err := r.setAside(ctx, tx, rows[i], err); err != nil {
				return sent, err
			}
		case first == nil:
			first = err
		}
	}
	if first != nil {
		return sent, fmt.Errorf("outbox: %d of %d rows wait: %w", len(rows)-len(sent), len(rows), first)
	}
	return sent, nil
}

func (r *Relay) setAside(ctx context.Context, tx pgx.Tx, w row, cause error) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	r.refused.Inc()
	r.log.ErrorContext(ctx, "outbox row is refused by the bus", "id", w.ID.String(), "subject", w.Subject, "error", cause)
	if len(r.aside) < asideMost {
		r.aside[w.ID] = time.Now().Add(asideFor)
	}
	return alarm.Raise(ctx, tx, alarm.OutboxRefused, w.Subject, fmt.Sprintf("Row %s of %d bytes: %v", w.ID, len(w.Payload), cause))
}

// mark notes that rows are on the bus. The days let Postgres leave the other
// partitions alone.
func mark(ctx context.Context, tx pgx.Tx, sent []row) error {
	if len(sent) == 0 {
		return nil
	}
	days, numbers := make([]time.Time, len(sent)), make([]ids.ID, len(sent))
	first, last := sent[0].Day, sent[0].Day
	for i, w := range sent {
		days[i], numbers[i] = w.Day, w.ID
		if w.Day.Before(first) {
			first = w.Day
		}
		if w.Day.After(last) {
			last = w.Day
		}
	}
	_, err := tx.Exec(ctx, `
		UPDATE platform.outbox o SET sent_at = clock_timestamp()
		FROM unnest($1::date[], $2::uuid[]) AS s (day, id)
		WHERE o.day = s.day AND o.id = s.id AND o.day BETWEEN $3 AND $4`, days, numbers, first, last)
	if err != nil {
		return fmt.Errorf("outbox: mark rows as sent: %w", err)
	}
	return nil
}
