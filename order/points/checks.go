package points

import (
	"context"
	"fmt"

	"stampede/order/points/internal/pointsdb"
	"stampede/platform/watch/proof"
)

// maxViolations bounds what one statement reports.
const maxViolations = 100

// Check proves that every paid order of an activity with a rule has the points of what was
// paid and did not go back, and that there are no others (I4). An order whose event is in
// flight has other points for a moment; a violation counts if it lasts.
func (s *Service) Check() proof.Check {
	return proof.Check{ID: "I4", Name: "points follow what was paid and refunded", Run: func(ctx context.Context) ([]proof.Violation, error) {
		return proof.Lasting(ctx, proof.Recheck, 1, proof.BySubject, s.check)
	}}
}

func (s *Service) check(ctx context.Context) ([]proof.Violation, error) {
	q := pointsdb.New(s.deps.DB)
	var f proof.Findings
	proof.Find(&f, func(o pointsdb.OrdersWithOtherPointsRow) (string, string) {
		return "order " + o.OrderNo.String(), fmt.Sprintf("It earned %d points, by its activity's rule %d; after its refunds it has %d, and should have %d.",
			o.Earned, o.ShouldEarn, o.Has, o.ShouldHave)
	})(q.OrdersWithOtherPoints(ctx, maxViolations))
	proof.Find(&f, func(p pointsdb.StrayPointsRow) (string, string) {
		return "points " + p.EntryNo.String(), fmt.Sprintf("User %d has them for order %s, which is no paid order of the user under a rule.", p.UserID, p.OrderNo)
	})(q.StrayPoints(ctx, maxViolations))
	return f.All("points: check")
}
