package risk

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// picture is the active rules and whom they hit, at one revision; immutable.
type picture struct {
	revision int64
	rules    []Rule
	marks    map[int64][]mark // by user; only the few
}

// mark is one rule's hit.
type mark struct {
	rule  *Rule
	count int64
	until time.Time
}

// has reports whether there is a rule of the kind.
func (p *picture) has(kind Kind, now time.Time) bool {
	for i := range p.rules {
		if p.rules[i].Kind == kind && !p.rules[i].over(now) {
			return true
		}
	}
	return false
}

// Refresh reads rules and marks if they have changed since the last time. Call
// it before serving: until then no rule hits anybody.
func (s *Service) Refresh(ctx context.Context) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var revision int64
	err := s.deps.DB.QueryRow(ctx, `SELECT revision FROM risk.revision`).Scan(&revision)
	if err == nil && revision != s.current.Load().revision {
		err = s.read(ctx)
	}
	if err != nil {
		s.metrics.refreshFailures.Inc()
		return fmt.Errorf("risk: refresh: %w", err)
	}
	return nil
}

// read replaces the picture. Revision, rules and marks are of one moment.
func (s *Service) read(ctx context.Context) error {
	tx, err := s.deps.DB.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it only read
	p := &picture{marks: map[int64][]mark{}}
	if err := tx.QueryRow(ctx, `SELECT revision FROM risk.revision`).Scan(&p.revision); err != nil {
		return err
	}
	if p.rules, err = activeRules(ctx, tx); err != nil {
		return err
	}
	byID := make(map[int64]*Rule, len(p.rules))
	for i := range p.rules {
		byID[p.rules[i].ID] = &p.rules[i]
	}
	// The worst offenders are kept where there are more than fit.
	rows, err := tx.Query(ctx, `SELECT rule_id, user_id, count, until FROM risk.marks
		WHERE until > clock_timestamp() ORDER BY count DESC, user_id LIMIT $1`, s.cfg.MaxOffenders)
	if err != nil {
		return err
	}
	var rule, user int64
	var m mark
	if _, err := pgx.ForEachRow(rows, []any{&rule, &user, &m.count, &m.until}, func() error {
		if m.rule = byID[rule]; m.rule != nil {
			p.marks[user] = append(p.marks[user], m)
		}
		return nil
	}); err != nil {
		return err
	}
	s.current.Store(p)
	return nil
}
