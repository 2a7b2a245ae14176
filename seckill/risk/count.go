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
	// openEvery is how late a user is hit who has taken one unpaid order too many.
	openEvery = time.Second
	// openShare bounds the time that the database spends on that: where the
	// question takes long, the next one waits ten times as long.
	openShare = 10
	// recountEvery is how often unpaid closings are counted for everybody, which
	// reads all of them once; single users are counted as their orders close.
	recountEvery = 5 * time.Minute
	// tidyEvery is how often what has ended is removed.
	tidyEvery = time.Minute
	// turnLife is how long another instance waits after one that died counting.
	turnLife = 10 * time.Second
)

// keepCounting runs the loops of which one instance is enough, and this
// instance's own flushing of refusals.
func (s *Service) keepCounting(ctx context.Context) error {
	elector := &lease.Elector{DB: s.deps.DB, Name: "risk-count", Holder: s.holder, TTL: turnLife}
	defer func() {
		if err := elector.Resign(ctx); err != nil {
			s.deps.Log.WarnContext(ctx, "lease not given back, it ends by itself", "lease", elector.Name, "error", err)
		}
	}()
	var jobs jobs
	return app.Loop{
		Every: flushEvery, Log: s.deps.Log, Failed: "risk rules not counted, trying again",
		Do: func(ctx context.Context) error { return s.countOnce(ctx, elector, &jobs) },
	}.Run(ctx)
}

// jobs are when the loops of one instance are due next.
type jobs struct{ open, recount, tidy time.Time }

func (s *Service) countOnce(ctx context.Context, elector *lease.Elector, due *jobs) error {
	if err := s.flushRefusals(ctx); err != nil {
		return err
	}
	now := time.Now()
	if now.Before(due.open) {
		return nil
	}
	due.open = now.Add(openEvery)
	mine, err := elector.IsLeader(ctx)
	if err != nil || !mine {
		return err
	}
	if s.current.Now().has(OpenUnpaid, s.deps.Clock.Now()) {
		if err := s.recount(ctx, OpenUnpaid); err != nil {
			return err
		}
		due.open = now.Add(max(openEvery, openShare*time.Since(now)))
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

// recount counts every rule of a kind anew.
func (s *Service) recount(ctx context.Context, kind Kind) error {
	p, now := s.current.Now(), s.deps.Clock.Now()
	for i := range p.rules {
		if r := &p.rules[i]; r.Kind == kind && !r.over(now) {
			if err := s.remark(ctx, r); err != nil {
				return fmt.Errorf("risk: rule %d: %w", r.ID, err)
			}
		}
	}
	return nil
}

// tidyAtMost bounds one removal; the next round takes the rest.
const tidyAtMost = 10_000

// tidy removes what has ended: nothing asks for it any more.
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
