package alarm

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/app"
	"stampede/platform/base/ids"
	"stampede/platform/store/lease"
	"stampede/platform/watch/alarm/internal/alarmdb"
)

// Finding is one subject with a problem.
type Finding struct {
	Subject string
	Detail  string
}

// Probe checks for a problem that makes no call fail.
type Probe struct {
	Alarm *Definition
	// Every is the time between two checks. 10 ms … 1 hour.
	Every time.Duration
	// For is how long every check must have found a subject before it is raised; 0
	// raises after one check.
	For time.Duration
	// Shared means that the finding is the same for every instance: one of them
	// checks, under the lease called Lease.
	Shared bool
	// Lease tells a shared probe from the others of its alarm; of one lease only one is ever checked.
	Lease string
	// Look returns the current findings, none when all is well. It may take as long
	// as lookTimeout. An error means that it could not check, or not completely,
	// which is not a finding: the cause of the failure has a separate probe.
	Look func(ctx context.Context) ([]Finding, error)
}

const (
	// lookTimeout bounds one check; the slowest reads every item's books, and again
	// after a pause.
	lookTimeout = 30 * time.Second
	// repeatEvery is how often a lasting finding is raised again: often enough that
	// last_seen shows whether it is over.
	repeatEvery = time.Minute
	// recordEvery is how soon after an outage of Postgres the kept alarms are
	// recorded, and recordTimeout how long that may take: it is one row each.
	recordEvery   = time.Second
	recordTimeout = 5 * time.Second
	// mostFindings bounds the rows of one check. Above it the first ones show the
	// problem.
	mostFindings = 20
	// abandonedAfter is how many of its intervals a finding must not have been raised
	// again before it is over, if the watch that raised it does not live to say so.
	abandonedAfter = 3
	// leaseRoom is how much longer than two checks a lease lasts: a short pause of its
	// instance does not lose what it tracks.
	leaseRoom = 10 * time.Second
)

// Watch runs probes. Make it with NewWatch.
type Watch struct {
	pool   *pgxpool.Pool
	log    *slog.Logger
	holder string
	probes []Probe
	of     map[Code]int  // how many probes an alarm has
	repeat time.Duration // repeatEvery, except in tests
	late   Late
}

// NewWatch makes a Watch. Two shared probes of one alarm without a lease each are a programming
// error, which panics.
func NewWatch(pool *pgxpool.Pool, log *slog.Logger, probes ...Probe) *Watch {
	leases, of := map[string]bool{}, map[Code]int{}
	for _, p := range probes {
		if p.Shared && leases[p.lease()] {
			panic("alarm: two shared probes have the lease " + p.lease())
		}
		leases[p.lease()] = leases[p.lease()] || p.Shared
		of[p.Alarm.Code]++
	}
	return &Watch{pool: pool, log: log, holder: ids.New().String(), probes: probes, of: of, repeat: repeatEvery}
}

// Run runs each probe in a separate goroutine, so that a slow one does not delay the
// others, until ctx ends; then it returns nil.
func (w *Watch) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, p := range w.probes {
		all.Go(func() { w.watch(ctx, p) })
	}
	all.Go(func() { _ = w.recordLate(ctx) }) // a loop ends only with ctx
	all.Wait()
	return nil
}

// recordLate writes the alarms that Postgres did not accept when they were raised,
// until ctx ends.
func (w *Watch) recordLate(ctx context.Context) error {
	return app.Loop{
		Every: recordEvery, Log: w.log, Failed: "recording alarms failed, kept until Postgres is back",
		Do: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, recordTimeout)
			defer cancel()
			return w.late.Record(ctx, w.pool)
		},
	}.Run(ctx)
}

func (p Probe) lease() string { return "alarm:" + cmp.Or(p.Lease, string(p.Alarm.Code)) }

// seen is what a watch remembers of a subject in the last findings.
type seen struct {
	since, last, raised time.Time
	detail              string
}

// watching is what the watch of one probe remembers.
type watching struct {
	found   map[string]*seen // the current findings
	sweepAt time.Time        // when alarms are over that an earlier watch left open; zero once they are
}

// watch runs one probe until ctx ends.
func (w *Watch) watch(ctx context.Context, p Probe) {
	run := func(ctx context.Context, _ int64) error {
		state := watching{map[string]*seen{}, time.Now().Add(w.quiet(p))} // another instance may have tracked the findings
		_ = app.Loop{Every: p.Every, Do: func(ctx context.Context) error { w.look(ctx, p, &state); return nil }}.Run(ctx)
		return ctx.Err()
	}
	if !p.Shared {
		_ = run(ctx, 0) // ends only with ctx
		return
	}
	log := w.log.With("code", string(p.Alarm.Code))
	_ = lease.Campaign(ctx, w.pool, log, p.lease(), w.holder, 2*p.Every+leaseRoom, "probe's lease cannot be read, nothing is checked", run)
}

func (w *Watch) look(ctx context.Context, p Probe, state *watching) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	findings, err := p.Look(ctx)
	now := time.Now()
	still := make(map[string]bool, len(findings))
	for i, f := range findings {
		still[f.Subject] = true
		s := state.found[f.Subject]
		if s == nil {
			if i >= mostFindings {
				continue
			}
			s = &seen{since: now}
			state.found[f.Subject] = s
		}
		s.last, s.detail = now, f.Detail
		if now.Sub(s.since) < p.For || !s.raised.IsZero() && now.Sub(s.raised) < w.repeat {
			continue
		}
		s.raised = now
		w.log.ErrorContext(ctx, "alarm raised", "code", string(p.Alarm.Code), "subject", f.Subject, "detail", f.Detail)
		w.raise(ctx, occurrence{p.Alarm, f.Subject, f.Detail, s.since, now, 1, false})
	}
	if err != nil {
		w.warn(ctx, p.Alarm, err)
		return // what was not checked is not over
	}
	for subject, s := range state.found {
		if !still[subject] {
			delete(state.found, subject)
			w.over(ctx, p.Alarm, subject, s, now)
		}
	}
	if state.sweepAt.IsZero() || now.Before(state.sweepAt) || len(findings) > mostFindings || w.of[p.Alarm.Code] > 1 {
		return // with more findings, or another probe, it is not known what this one would not find
	}
	if err := alarmdb.New(w.pool).EndAbandoned(ctx, alarmdb.EndAbandonedParams{Code: string(p.Alarm.Code), Quiet: w.quiet(p)}); err != nil {
		w.warn(ctx, p.Alarm, err)
		return
	}
	state.sweepAt = time.Time{}
}

// quiet is for how long no instance has raised a finding again that is over.
func (w *Watch) quiet(p Probe) time.Duration { return abandonedAfter * max(w.repeat, p.Every) }

// over completes the alarm about a subject that has recovered, with the longest time
// that the problem can have lasted.
func (w *Watch) over(ctx context.Context, d *Definition, subject string, s *seen, now time.Time) {
	if s.raised.IsZero() || s.last.Equal(s.since) {
		return // it was not raised, or the one check that found it has recorded everything
	}
	lasted := now.Sub(s.since).Round(100 * time.Millisecond).String()
	w.log.InfoContext(ctx, "cause of an alarm is over", "code", string(d.Code), "subject", subject, "lasted", lasted)
	w.raise(ctx, occurrence{d, subject, s.detail + " It lasted " + lasted + ".", s.since, now, 0, true})
}

func (w *Watch) raise(ctx context.Context, o occurrence) {
	if err := w.late.raise(ctx, w.pool, o); err != nil {
		w.warn(ctx, o.alarm, fmt.Errorf("recorded later: %s: %w", o.subject, err))
	}
}

func (w *Watch) warn(ctx context.Context, d *Definition, err error) {
	if ctx.Err() == nil {
		w.log.WarnContext(ctx, "probe failed or its alarm is not recorded yet", "code", string(d.Code), "error", err)
	}
}
