package risk

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/seckill/risk/internal/riskdb"
)

// Hit is a user that a rule applies to.
type Hit struct {
	User  int64
	Count int64     // what the rule counts
	Until time.Time // when the user falls below the threshold if nothing more happens
}

// worst sorts hits, worst first, and keeps at most that many.
func worst(hits []Hit, most int) []Hit {
	slices.SortFunc(hits, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.User, b.User)) })
	return hits[:min(len(hits), most)]
}

// hits returns the users that a rule applies to now: the same for a rule in
// force and for a dry run. users restricts the query; nil means all users.
func (s *Service) hits(ctx context.Context, db riskdb.DBTX, r *Rule, users []int64) ([]Hit, error) {
	if r.Kind == OpenUnpaid {
		return s.openHits(ctx, r)
	}
	return unpaidHits(ctx, db, r, users, s.set.MaxOffenders)
}

// unpaidHits counts unpaid closings.
func unpaidHits(ctx context.Context, db riskdb.DBTX, r *Rule, users []int64, most int) ([]Hit, error) {
	rows, err := riskdb.New(db).UnpaidHits(ctx, riskdb.UnpaidHitsParams{
		Threshold: r.Threshold, WindowLength: time.Duration(r.WindowSeconds) * time.Second, Users: users, AtMost: int32(most), //nolint:gosec // a setting
	})
	if err != nil {
		return nil, fmt.Errorf("count unpaid holds: %w", err)
	}
	hits := make([]Hit, len(rows))
	for i, h := range rows {
		hits[i] = Hit{User: h.UserID, Count: h.Count, Until: h.Until}
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
		hits = append(hits, Hit{User: user, Count: n, Until: never})
	}
	return worst(hits, s.set.MaxOffenders), nil
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
		users[i], counts[i], until[i] = h.User, h.Count, h.Until
	}
	return users, counts, until
}

// remark recounts a rule for all users.
func (s *Service) remark(ctx context.Context, r *Rule) error {
	hits, err := s.hits(ctx, s.deps.DB, r, nil)
	if err != nil {
		return err
	}
	return s.current.Change(ctx, func(tx pgx.Tx) (bool, error) { return setMarks(ctx, tx, r.ID, hits) })
}
