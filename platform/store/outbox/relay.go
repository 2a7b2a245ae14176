package outbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/base/app"
	"stampede/platform/store/bus"
	"stampede/platform/store/pg"
	"stampede/platform/store/pulse"
)

const (
	// pollEvery is how often the relay polls, where it has no pulse, for rows whose
	// wake-up was lost or went to another instance.
	pollEvery = 200 * time.Millisecond
	// takenPause is how soon a woken relay retries while another one has the
	// lock: the other may have queried before the commit that woke this one.
	takenPause = 20 * time.Millisecond
	// firstBackoff and mostBackoff bound the back-off while the bus or Postgres
	// does not answer. mostBackoff is how late an event may be after the end of
	// an outage.
	firstBackoff = 50 * time.Millisecond
	mostBackoff  = 5 * time.Second
	// stopGrace is how long the relay may keep sending after ctx has ended. It
	// is a small part of the 10 s that a process has to exit; the remaining
	// rows wait for the next start.
	stopGrace = 3 * time.Second
	// relayLock is the key of the advisory lock, in the single-number key space
	// that the whole database shares.
	relayLock = 0x6f7574626f78 // "outbox"
)

// due is whether the relay has something to send: rows, and refused events whose next
// attempt is due.
const due = `EXISTS (SELECT FROM platform.outbox WHERE sent_at IS NULL)
	OR EXISTS (SELECT FROM platform.outbox_refused WHERE next_try <= statement_timestamp())`

// Relay publishes the outbox. One per process; create it with New.
type Relay struct {
	pool  *pgxpool.Pool
	bus   *bus.Bus
	pulse *pulse.Pulse
	log   *slog.Logger
	wake  chan struct{} // buffers one wake-up

	giveUpAfter               time.Duration // how long the bus refuses an event before it fails
	raiseRefused, raiseFailed Raise

	// Owned by Run's goroutine:
	recalled time.Time // the creation time of EVENTS up to which recall is complete
	recallAt time.Time // earliest time of the next recall after a failure
	retryAt  time.Time // when to look for refused events that are due

	sent    prometheus.Counter
	again   prometheus.Counter
	failed  prometheus.Counter
	refused prometheus.Counter
	lag     prometheus.Gauge

	poll       time.Duration // pollEvery, except in tests
	grace      time.Duration // stopGrace, except in tests
	margin     time.Duration // recallMargin, except in tests
	retryFirst time.Duration // the wait after an event's first refusal: a minute, except in tests
	retryEvery time.Duration // between two looks for due events: 5 s, except in tests
	published  func() error  // relayPublished.Err, except in tests; runs between publishing a window and marking it
}

// Raise raises an alarm about an event that the bus refuses, in tx.
type Raise func(ctx context.Context, tx pg.DB, subject, detail string) error

// New returns a relay. It uses one connection of pool while it publishes. An event
// that the bus has refused for giveUpAfter fails: the relay raises that alarm and
// leaves the event to an operator. The pulse asks for what is due in place of the
// relay's own polls; it and metrics may be nil.
func New(pool *pgxpool.Pool, b *bus.Bus, p *pulse.Pulse, giveUpAfter time.Duration, refused, failed Raise, log *slog.Logger, metrics prometheus.Registerer) *Relay {
	auto := promauto.With(metrics)
	return &Relay{
		pool: pool, bus: b, pulse: p, log: log, wake: make(chan struct{}, 1),
		giveUpAfter: giveUpAfter, raiseRefused: refused, raiseFailed: failed,
		poll: pollEvery, grace: stopGrace, margin: recallMargin, retryFirst: retryFirst, retryEvery: retryEvery, published: relayPublished.Err,
		sent: auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_outbox_sent_total", Help: "Outbox rows published and marked.",
		}),
		again: auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_outbox_recalled_total", Help: "Outbox rows unmarked because EVENTS was lost after they were sent.",
		}),
		failed: auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_outbox_failures_total", Help: "Windows that were not published or not marked and are retried.",
		}),
		refused: auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_outbox_refused_total", Help: "Attempts to send an outbox row that the bus refused.",
		}),
		lag: auto.NewGauge(prometheus.GaugeOpts{
			Name: "stampede_outbox_lag_seconds", Help: "Age of the oldest row in the last window of the relay that has the lock.",
		}),
	}
}

// Wake notifies the relay that a row was committed. It never blocks.
func (r *Relay) Wake() { app.Kick(r.wake) }

// Run publishes until ctx ends and then returns nil. It first finishes the
// current window and sends the other waiting rows, within 3 s. No error ends
// it.
func (r *Relay) Run(ctx context.Context) error {
	work, end := workUntil(ctx, r.grace)
	defer end()
	pause, waiting := time.Duration(0), r.pulse.Due("relay", due)
	for ctx.Err() == nil {
		r.recall(work)
		r.retry(work)
		outcome, err := r.window(work)
		switch {
		case err != nil && ctx.Err() == nil:
			pause = min(max(2*pause, firstBackoff), mostBackoff)
			r.failed.Inc()
			r.log.WarnContext(ctx, "outbox window failed, retrying", "error", err, "pause", pause.String())
			_ = app.Sleep(ctx, pause) // the loop looks at ctx
			continue
		case outcome == more:
			pause = 0
			continue
		case outcome == taken:
			// Once woken, retry soon, for as long as the other relay may be
			// busy with rows it saw before.
			if r.rest(ctx, waiting) {
				r.Wake()
				_ = app.Sleep(ctx, takenPause) // as above
			}
		default:
			r.rest(ctx, waiting)
		}
		pause = 0
	}
	// Send the rows that other components committed during the stop. Do not
	// retry a failure: the rows are safe in the outbox.
	for {
		left, err := r.window(work)
		if err != nil {
			r.log.WarnContext(work, "outbox not empty at the stop, the next start sends the rest", "error", err)
		}
		if err != nil || left != more {
			return nil
		}
	}
}

// workUntil returns a context that outlives ctx by the grace: a window in
// progress is finished, since its events are on the bus and marking them avoids
// duplicates, but a hanging call cannot block the stop.
func workUntil(ctx context.Context, grace time.Duration) (work context.Context, end func()) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	forget := context.AfterFunc(ctx, func() {
		over := time.AfterFunc(grace, cancel)
		context.AfterFunc(work, func() { over.Stop() })
	})
	return work, func() { forget(); cancel() }
}

// rest waits for the next poll, of the pulse if there is one, for a wake-up, which it
// reports, or for the end of ctx. What a recreated EVENTS has lost ends it too.
func (r *Relay) rest(ctx context.Context, due <-chan struct{}) (woken bool) {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-r.wake:
			return true
		case <-due:
			return false
		case <-time.After(app.UntilBeat(r.poll)):
			if due == nil || !r.bus.EventsCreated().Equal(r.recalled) {
				return false
			}
		}
	}
}
