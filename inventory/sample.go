package inventory

import (
	"context"
	"fmt"

	"stampede/platform/watch/proof"
)

// Samples are checks that a running server can afford each minute: those of
// Checks that an item's sums can prove. Items at rest cost one small call each,
// an item on sale a read of its holders. Orphans and single orders are left to
// Checks.
func (s *Service) Samples() []proof.Check {
	return []proof.Check{
		{ID: "I1", Name: "never oversold", Run: s.sampled(oversoldRow)},
		{ID: "I2", Name: "nothing stuck", Run: s.sampled(stuckRow)},
	}
}

// sampled examines every item's sums, and suspicious ones again after
// proof.Recheck.
func (s *Service) sampled(wrong func(BookRow) string) func(context.Context) ([]proof.Violation, error) {
	return func(ctx context.Context) ([]proof.Violation, error) {
		return proof.Lasting(ctx, s.recheck, 1, proof.BySubject, func(ctx context.Context) (found []proof.Violation, err error) {
			rows, err := s.Books(ctx)
			for _, r := range rows {
				if why := wrong(r); why != "" {
					found = append(found, proof.Violation{Subject: ItemSubject(r.ItemID), Detail: why})
				}
			}
			return found, err
		})
	}
}

// oversoldRow describes a violation of I1 in the sums, "" if there is none. One
// sentence is enough to make the operator run verify, which reports everything.
func oversoldRow(r BookRow) string {
	if found := r.oversold(); len(found) > 0 {
		return found[0].detail
	}
	if r.Loaded && !r.Unlimited && r.RedisRemaining < 0 {
		return fmt.Sprintf("Redis counts %d remaining.", r.RedisRemaining)
	}
	return ""
}

// stuckRow describes a violation of I2 in the sums, "" if there is none.
func stuckRow(r BookRow) string {
	if !r.Loaded || r.Difference == 0 {
		return ""
	}
	return r.difference()
}
