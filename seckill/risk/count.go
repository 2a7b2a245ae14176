package risk

import (
	"context"
	"fmt"
	"time"

	"stampede/platform/app"
	"stampede/platform/lease"
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
	turn := &lease.Turn{DB: s.deps.DB, Name: "risk-count", Holder: s.holder, Life: turnLife}
	defer func() {
		if err := turn.Leave(ctx); err != nil {
			s.deps.Log.WarnContext(ctx, "lease not given back, it ends by itself", "lease", turn.Name, "error", err)
		}
	}()
	var jobs jobs
	return app.Loop{
		Every: flushEvery, Log: s.deps.Log, Failed: "risk rules not counted, trying again",
		Do: func(ctx context.Context) error { return s.countOnce(ctx, turn, &jobs) },
	}.Run(ctx)
}

// jobs are when the loops of one instance are due next.
type jobs struct{ open, recount, tidy time.Time }

func (s *Service) countOnce(ctx context.Context, turn *lease.Turn, due *jobs) error {
	if err := s.flushRefusals(ctx); err != nil {
		return err
	}
	now := time.Now()
	if now.Before(due.open) {
		return nil
	}
	due.open = now.Add(openEvery)
	mine, err := turn.Mine(ctx)
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
	for _, t := range [...]struct {
		what, statement string
		args            []any
	}{
		{"claims", `DELETE FROM risk.claims WHERE user_id IN (
			SELECT c.user_id FROM risk.claims c WHERE c.until < clock_timestamp() AND (c.ends_at < clock_timestamp() OR NOT EXISTS (
				SELECT FROM risk.claim_orders o WHERE o.user_id = c.user_id AND o.activity_id = c.activity_id AND o.live))
			ORDER BY c.until LIMIT $1 FOR UPDATE SKIP LOCKED) AND until < clock_timestamp()`, nil},
		{"orders of claims", `DELETE FROM risk.claim_orders WHERE order_no IN (
			SELECT order_no FROM risk.claim_orders WHERE ends_at < clock_timestamp() ORDER BY ends_at LIMIT $1)`, nil},
		{"unpaid closings", `DELETE FROM risk.holds WHERE order_no IN (
			SELECT order_no FROM risk.holds WHERE closed_at < clock_timestamp() - $2::interval ORDER BY closed_at LIMIT $1)`, []any{maxWindow}},
		{"marks", `DELETE FROM risk.marks WHERE (rule_id, user_id) IN (
			SELECT rule_id, user_id FROM risk.marks WHERE until < clock_timestamp() ORDER BY until LIMIT $1)`, nil},
		{"decisions", `DELETE FROM risk.decisions WHERE id IN (
			SELECT id FROM risk.decisions WHERE at < clock_timestamp() - $2::interval ORDER BY at LIMIT $1)`, []any{s.cfg.KeepDecisions}},
	} {
		if _, err := s.deps.DB.Exec(ctx, t.statement, append([]any{tidyAtMost}, t.args...)...); err != nil {
			return fmt.Errorf("risk: remove ended %s: %w", t.what, err)
		}
	}
	return nil
}
