package risk

import (
	"context"
	"fmt"
	"time"

	"stampede/platform/base/app"
	"stampede/platform/store/lease"
	"stampede/seckill/risk/internal/riskdb"
)

const (
	// openEvery is how soon a rule applies to a user with one unpaid order too
	// many.
	openEvery = time.Second
	// openShare bounds the database time spent on that: if a query takes long,
	// the next one waits ten times as long.
	openShare = 10
	// recountEvery is how often unpaid closings are counted for all users, which
	// reads all closings once; single users are counted as their orders close.
	recountEvery = 5 * time.Minute
	// tidyEvery is how often ended rows are removed.
	tidyEvery = time.Minute
	// turnLife is how long the other instances wait after one that died while
	// counting.
	turnLife = 10 * time.Second
)

// keepCounting runs the loops that only one instance needs to run.
func (s *Service) keepCounting(ctx context.Context) error {
	elector := &lease.Elector{DB: s.deps.DB, Name: "risk-count", Holder: s.holder, TTL: turnLife}
	defer func() {
		if err := elector.Resign(ctx); err != nil {
			s.deps.Log.WarnContext(ctx, "lease not released, it will expire", "lease", elector.Name, "error", err)
		}
	}()
	var jobs jobs
	return app.Loop{
		Every: openEvery, Log: s.deps.Log, Failed: "risk rule counting failed, will be retried",
		Do: func(ctx context.Context) error { return s.countOnce(ctx, elector, &jobs) },
	}.Run(ctx)
}

// jobs are the next due times of the loops that one instance runs.
type jobs struct{ open, recount, tidy time.Time }

func (s *Service) countOnce(ctx context.Context, elector *lease.Elector, due *jobs) error {
	now := time.Now()
	if now.Before(due.open) {
		return nil
	}
	mine, err := elector.IsLeader(ctx)
	if err != nil || !mine {
		return err
	}
	if s.current.Now().has(OpenUnpaid, s.deps.Clock.Now()) {
		if err := s.recount(ctx, OpenUnpaid); err != nil {
			return err
		}
		due.open = now.Add(openShare * time.Since(now))
	}
	if !now.Before(due.recount) {
		if err := s.recount(ctx, UnpaidHolds); err != nil {
			return err
		}
		due.recount = now.Add(recountEvery)
	}
	if !now.Before(due.tidy) {
		if err := s.tidy(ctx); err != nil {
			return err
		}
		due.tidy = now.Add(tidyEvery)
	}
	return nil
}

// recount recounts every rule of a kind.
func (s *Service) recount(ctx context.Context, kind string) error {
	p, now := s.current.Now(), s.deps.Clock.Now()
	for i := range p.rules {
		if r := &p.rules[i]; r.Kind == kind && !over(r, now) {
			if err := s.remark(ctx, r); err != nil {
				return fmt.Errorf("risk: rule %d: %w", r.ID, err)
			}
		}
	}
	return nil
}

// tidyAtMost bounds one removal; the next round takes the rest.
const tidyAtMost = 10_000

// tidy removes rows that have ended and are no longer read.
func (s *Service) tidy(ctx context.Context) error {
	q := riskdb.New(s.deps.DB)
	for what, remove := range map[string]func() error{
		"claims":           func() error { return q.RemoveEndedClaims(ctx, tidyAtMost) },
		"orders of claims": func() error { return q.RemoveEndedClaimOrders(ctx, tidyAtMost) },
		"unpaid closings": func() error {
			return q.RemoveOldHolds(ctx, riskdb.RemoveOldHoldsParams{Keep: maxWindow, AtMost: tidyAtMost})
		},
		"marks": func() error { return q.RemoveEndedMarks(ctx, tidyAtMost) },
		"decisions": func() error {
			return q.RemoveOldDecisions(ctx, riskdb.RemoveOldDecisionsParams{Keep: s.deps.Keep, AtMost: tidyAtMost})
		},
	} {
		if err := remove(); err != nil {
			return fmt.Errorf("risk: remove ended %s: %w", what, err)
		}
	}
	return nil
}
