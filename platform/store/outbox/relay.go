package outbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/store/pg"
)

const (
	// pollEvery finds rows whose wake-up got lost or went to another instance.
	pollEvery = 200 * time.Millisecond
	// takenPause is how soon a woken relay asks again while another one has the
	// lock: that one may have looked before the commit that woke this one.
	takenPause = 20 * time.Millisecond
	// firstBackoff and mostBackoff pace the tries while the bus or Postgres does
	// not answer. The most is what an event may be late after the end of an outage.
	firstBackoff = 50 * time.Millisecond
	mostBackoff  = 5 * time.Second
	// stopGrace is what is left for sending after ctx has ended. It is a small
	// part of the 10 s in which a process has to be gone; what does not fit in
	// waits for the next start.
	stopGrace = 3 * time.Second
	// relayLock is the key of the advisory lock, in the range that
	// pg_advisory locks by one number share with the rest of the database.
	relayLock = 0x6f7574626f78 // "outbox"
)

// Relay publishes the outbox. One per process; make it with New.
type Relay struct {
	pool  *pgxpool.Pool
	bus   *bus.Bus
	raise Raise
	log   *slog.Logger
	wake  chan struct{} // holds one wake-up

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

// Raise raises an alarm about an event that the bus refuses, in tx.
type Raise func(ctx context.Context, tx pg.DB, subject, detail string) error

// New makes a relay. It takes one connection of pool while it publishes.
// metrics may be nil.
func New(pool *pgxpool.Pool, b *bus.Bus, raise Raise, log *slog.Logger, metrics prometheus.Registerer) *Relay {
	auto := promauto.With(metrics)
	return &Relay{
		pool: pool, bus: b, raise: raise, log: log,
		wake:   make(chan struct{}, 1),
		margin: recallMargin,
		aside:  make(map[ids.ID]time.Time),
		sent: auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_outbox_sent_total", Help: "Outbox rows published and marked.",
		}),
		again: auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_outbox_recalled_total", Help: "Outbox rows unmarked because EVENTS was lost after they were sent.",
		}),
		failed: auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_outbox_failures_total", Help: "Windows that were not published or not marked and come again.",
		}),
		refused: auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_outbox_refused_total", Help: "Outbox rows that the bus does not take.",
		}),
		lag: auto.NewGauge(prometheus.GaugeOpts{
			Name: "stampede_outbox_lag_seconds", Help: "Age of the oldest row in the last window of the relay that has the lock.",
		}),
	}
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
