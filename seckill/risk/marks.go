package risk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/app"
	"stampede/platform/store/lease"
	"stampede/seckill/risk/internal/riskdb"
)

// Hit is a user that a rule applies to, what the rule counts, and when the user falls
// below the threshold if nothing more happens.
type Hit = riskdb.UnpaidHitsRow

// hits returns the users that a rule applies to now: the same for a rule in
// force and for a dry run. users restricts the query; nil means all users.
func (s *Service) hits(ctx context.Context, r *Rule, users []int64) ([]Hit, error) {
	if r.Kind == OpenUnpaid {
		return s.openHits(ctx, r)
	}
	hits, err := riskdb.New(s.deps.DB).UnpaidHits(ctx, riskdb.UnpaidHitsParams{
		Threshold: r.Threshold, WindowLength: time.Duration(r.WindowSeconds) * time.Second, Users: users,
		AtMost: int32(s.set.MaxOffenders), //nolint:gosec // a setting
	})
	if err != nil {
		return nil, fmt.Errorf("count unpaid holds: %w", err)
	}
	return hits, nil
}

// never is the end of a mark that has no time limit; a later count removes it.
var never = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)

// openHits queries the order module for users with many orders to pay now.
func (s *Service) openHits(ctx context.Context, r *Rule) ([]Hit, error) {
	if s.deps.Orders == nil {
		return nil, nil
	}
	open, err := s.deps.Orders.OpenUnpaid(ctx, int(r.Threshold), s.set.MaxOffenders)
	if err != nil {
		return nil, fmt.Errorf("query open orders: %w", err)
	}
	hits := make([]Hit, 0, len(open))
	for user, n := range open {
		hits = append(hits, Hit{UserID: user, Count: n, Until: never})
	}
	slices.SortFunc(hits, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.UserID, b.UserID)) }) // worst first
	return hits, nil
}

// putMarks stores hits of a rule, and reports whether that changed anything.
func putMarks(ctx context.Context, tx pgx.Tx, rule int64, hits []Hit) (bool, error) {
	users, counts, until := columns(hits)
	changed, err := riskdb.New(tx).PutMarks(ctx, riskdb.PutMarksParams{RuleID: rule, Users: users, Counts: counts, Until: until})
	if err != nil {
		return false, fmt.Errorf("store marks: %w", err)
	}
	return changed > 0, nil
}

// setMarks replaces all marks of a rule by hits.
func setMarks(ctx context.Context, tx pgx.Tx, rule int64, hits []Hit) (bool, error) {
	users, _, _ := columns(hits)
	removed, err := riskdb.New(tx).RemoveMarksOfOthers(ctx, riskdb.RemoveMarksOfOthersParams{RuleID: rule, Users: users})
	if err != nil {
		return false, fmt.Errorf("remove marks: %w", err)
	}
	put, err := putMarks(ctx, tx, rule, hits)
	return put || removed > 0, err
}

func columns(hits []Hit) (users, counts []int64, until []time.Time) {
	// Never nil: a NULL array would compare as unknown.
	users, counts, until = make([]int64, len(hits)), make([]int64, len(hits)), make([]time.Time, len(hits))
	for i, h := range hits {
		users[i], counts[i], until[i] = h.UserID, h.Count, h.Until
	}
	return users, counts, until
}

func (s *Service) remark(ctx context.Context, r *Rule) error {
	hits, err := s.hits(ctx, r, nil)
	if err != nil {
		return err
	}
	return s.current.Change(ctx, func(tx pgx.Tx) (bool, error) { return setMarks(ctx, tx, r.ID, hits) })
}

const (
	// openEvery is how soon a rule applies to a user with one unpaid order too
	// many.
	openEvery = time.Second
	// openShare bounds the database time spent on that: if a query takes long,
	// the next one waits ten times as long; after a round that failed, as long as
	// ten rounds.
	openShare = 10
	// recountEvery is how often unpaid closings are counted for all users, which
	// reads all closings once; single users are counted as their orders close.
	recountEvery = 5 * time.Minute
	// tidyEvery is how often ended rows are removed.
	tidyEvery = time.Minute
	// turnLife is how long the other instances wait after one that died while
	// counting.
	turnLife = 10 * time.Second
	// countTimeout bounds a round, because an instance that hangs keeps its turn. Counting all closings of a large shop
	// takes seconds.
	countTimeout = 2 * time.Minute
)

// keepCounting runs the loops that only one instance needs to run.
func (s *Service) keepCounting(ctx context.Context) error {
	var jobs jobs
	return lease.Lead(ctx, s.deps.DB, "risk-count", s.holder, turnLife, app.Loop{
		Every: openEvery, Log: s.deps.Log, Failed: "risk rule counting failed, will be retried",
		Do: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, countTimeout)
			defer cancel()
			return s.countOnce(ctx, &jobs)
		},
	})
}

// jobs are the next due times of the loops that one instance runs.
type jobs struct{ open, recount, tidy time.Time }

func (s *Service) countOnce(ctx context.Context, due *jobs) error {
	now := time.Now()
	if now.Before(due.open) {
		return nil
	}
	err := s.recount(ctx, OpenUnpaid)
	due.open = now.Add(openShare * time.Since(now))
	err = errors.Join(err,
		when(now, &due.recount, recountEvery, func() error { return s.recount(ctx, UnpaidHolds) }),
		when(now, &due.tidy, tidyEvery, func() error { return s.tidy(ctx) }))
	if err != nil { // what failed is done again in the next round
		due.open = now.Add(openShare * time.Since(now))
	}
	return err
}

// when does what is due, and again after a time if that succeeded.
func when(now time.Time, due *time.Time, every time.Duration, do func() error) error {
	if now.Before(*due) {
		return nil
	}
	err := do()
	if err == nil {
		*due = now.Add(every)
	}
	return err
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
