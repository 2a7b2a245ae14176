package risk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/seckill/risk/internal/riskdb"
)

// picture is an immutable snapshot of the active rules and of the users they
// apply to.
type picture struct {
	rules   []Rule
	ignored []Rule           // of kinds that are not counted
	marks   map[int64][]mark // by user; only users with marks
}

// mark is a rule's hit on a user.
type mark struct {
	rule  *Rule
	count int64
	until time.Time
}

// has reports whether there is a rule of the kind.
func (p *picture) has(kind string, now time.Time) bool {
	for i := range p.rules {
		if p.rules[i].Kind == kind && !over(&p.rules[i], now) {
			return true
		}
	}
	return false
}

// Refresh reads rules and marks if they have changed, and logs the rules that it
// ignores. Call it before serving: until then no rule applies.
func (s *Service) Refresh(ctx context.Context) error {
	err := errors.Join(s.current.Refresh(ctx), s.readUnpaid(ctx, pausePeriod))
	for _, r := range s.current.Now().ignored {
		s.deps.Log.WarnContext(ctx, "risk rule ignored, its kind is not counted: remove it", "rule", r.ID, "kind", r.Kind)
	}
	return err
}

// readPicture reads a consistent snapshot of rules and marks.
func (s *Service) readPicture(ctx context.Context, tx pgx.Tx) (*picture, error) {
	p := &picture{marks: map[int64][]mark{}}
	active, err := riskdb.New(tx).ActiveRules(ctx, maxRules)
	if err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	for _, r := range active {
		if counted(&r) {
			p.rules = append(p.rules, r)
		} else {
			p.ignored = append(p.ignored, r)
		}
	}
	byID := make(map[int64]*Rule, len(p.rules))
	for i := range p.rules {
		byID[p.rules[i].ID] = &p.rules[i]
	}
	// If there are more offenders than fit, the worst are kept.
	rows, err := riskdb.New(tx).WorstMarks(ctx, int32(s.set.MaxOffenders)) //nolint:gosec // a setting
	if err != nil {
		return nil, err
	}
	for _, m := range rows {
		if rule := byID[m.RuleID]; rule != nil {
			p.marks[m.UserID] = append(p.marks[m.UserID], mark{rule: rule, count: m.Count, until: m.Until})
		}
	}
	return p, nil
}
