package alarm

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/app"
	"stampede/platform/base/ids"
	"stampede/platform/store/lease"
)

// Finding is one subject that is not as it should be.
type Finding struct {
	Subject string
	Detail  string
}

// Probe looks at something that fails without a failing call.
type Probe struct {
	Alarm *Definition
	// Every is the time between two looks. 10 ms … 1 hour.
	Every time.Duration
	// For is how long a subject must have been found in each look before it is
	// raised; 0 raises what one look finds.
	For time.Duration
	// Shared says that the finding is the same for every instance: one of them
	// looks, under a lease.
	Shared bool
	// Look returns what is wrong now; nothing when all is well. It may take as
	// long as lookTimeout. An error means that it could not look, or not at all of
	// it, which is no finding: whatever keeps it from looking has a probe of its
	// own.
	Look func(ctx context.Context) ([]Finding, error)
}

const (
	// lookTimeout bounds one look; the slowest reads every item's books, and
	// again after a pause.
	lookTimeout = 30 * time.Second
	// repeatEvery is how often what lasts is raised again: often enough that
	// last_seen tells whether it is over.
	repeatEvery = time.Minute
	// recordEvery is how soon after an outage of Postgres the alarms are recorded that
	// it did not take, and recordTimeout how long that may take: it is one row each.
	recordEvery   = time.Second
	recordTimeout = 5 * time.Second
	// mostFindings bounds the rows of one look. Beyond it the first ones show
	// what is wrong.
	mostFindings = 20
	// leaseRoom is how much longer than two looks a lease lasts, so that a busy
	// instance keeps it and a dead one is replaced soon.
	leaseRoom = 10 * time.Second
)

// Watch runs probes. Make it with NewWatch.
type Watch struct {
	pool   *pgxpool.Pool
	log    *slog.Logger
	holder string
	probes []Probe
	late   Late
}

// NewWatch makes one.
func NewWatch(pool *pgxpool.Pool, log *slog.Logger, probes ...Probe) *Watch {
	return &Watch{pool: pool, log: log, holder: ids.New().String(), probes: probes}
}

// Run looks, each probe by itself so that a slow one keeps no other waiting,
// until ctx ends; then it returns nil.
func (w *Watch) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, p := range w.probes {
		all.Go(func() { w.watch(ctx, p) })
	}
	all.Go(func() { _ = w.recordLate(ctx) }) // a loop ends with ctx alone
	all.Wait()
	return nil
}

// recordLate brings the alarms to Postgres that it did not take when they were
// raised, until ctx ends.
func (w *Watch) recordLate(ctx context.Context) error {
	return app.Loop{
		Every: recordEvery, Log: w.log, Failed: "alarms wait until postgres takes them",
		Do: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, recordTimeout)
			defer cancel()
			return w.late.Record(ctx, w.pool)
		},
	}.Run(ctx)
}

// seen is what a watch remembers of a subject that was found in the last look.
type seen struct {
	since, last, raised time.Time
	detail              string
}

// watch looks for one probe until ctx ends; found is what is wrong at present.
func (w *Watch) watch(ctx context.Context, p Probe) {
	found := map[string]*seen{}
	elector := lease.Elector{DB: w.pool, Name: "alarm:" + string(p.Alarm.Code), Holder: w.holder, TTL: 2*p.Every + leaseRoom}
	_ = app.Loop{Every: p.Every, Do: func(ctx context.Context) error {
		if w.mayLook(ctx, p, &elector) {
			w.look(ctx, p, found)
		} else {
			clear(found) // what another instance finds is its own to count
		}
		return nil
	}}.Run(ctx) // ends with ctx alone
	if err := elector.Resign(ctx); err != nil {
		w.log.WarnContext(ctx, "lease left to expire", "lease", elector.Name, "error", err)
	}
}

// mayLook reports whether this instance is the one to look.
func (w *Watch) mayLook(ctx context.Context, p Probe, elector *lease.Elector) bool {
	if !p.Shared {
		return true
	}
	mine, err := elector.IsLeader(ctx)
	if err != nil {
		w.warn(ctx, p.Alarm, err)
	}
	return mine
}

func (w *Watch) look(ctx context.Context, p Probe, found map[string]*seen) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	findings, err := p.Look(ctx)
	if err != nil {
		w.warn(ctx, p.Alarm, err)
		if len(findings) == 0 {
			return // nothing is known, so nothing is over
		}
	}
	findings = findings[:min(len(findings), mostFindings)]
	now := time.Now()
	still := make(map[string]bool, len(findings))
	for _, f := range findings {
		still[f.Subject] = true
		s := found[f.Subject]
		if s == nil {
			s = &seen{since: now}
			found[f.Subject] = s
		}
		s.last, s.detail = now, f.Detail
		if now.Sub(s.since) < p.For || !s.raised.IsZero() && now.Sub(s.raised) < repeatEvery {
			continue
		}
		s.raised = now
		w.log.ErrorContext(ctx, "alarm raised", "code", string(p.Alarm.Code), "subject", f.Subject, "detail", f.Detail)
		w.raise(ctx, occurrence{p.Alarm, f.Subject, f.Detail, s.since, now, 1})
	}
	for subject, s := range found {
		if !still[subject] {
			delete(found, subject)
			w.over(ctx, p.Alarm, subject, s, now)
		}
	}
}

// over completes the alarm about a subject that was found until the last look and
// is well now, with how long that was at most.
func (w *Watch) over(ctx context.Context, d *Definition, subject string, s *seen, now time.Time) {
	if s.raised.IsZero() || s.last.Equal(s.since) {
		return // it was not raised, or the one look that found it has told everything
	}
	lasted := now.Sub(s.since).Round(100 * time.Millisecond).String()
	w.log.InfoContext(ctx, "what an alarm was raised for is over", "code", string(d.Code), "subject", subject, "lasted", lasted)
	w.raise(ctx, occurrence{d, subject, s.detail + " It lasted " + lasted + ".", s.since, now, 0})
}

func (w *Watch) raise(ctx context.Context, o occurrence) {
	if err := w.late.raise(ctx, w.pool, o); err != nil {
		w.warn(ctx, o.alarm, fmt.Errorf("recorded later: %s: %w", o.subject, err))
	}
}

func (w *Watch) warn(ctx context.Context, d *Definition, err error) {
	if ctx.Err() == nil {
		w.log.WarnContext(ctx, "probe could not look or its alarm was not recorded yet", "code", string(d.Code), "error", err)
	}
}
