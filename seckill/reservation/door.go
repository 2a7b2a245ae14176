package reservation

import (
	"context"

	"stampede/platform/edge/httpx"
	"stampede/seckill/rush"
)

// Check is a rush.DoorCheck: where the session asks for a reservation, only
// those who hold one pass. Without an answer from Postgres nobody does.
func (s *Service) Check(ctx context.Context, a *rush.Applicant) error {
	if a.Item.ReserveUntil.IsZero() {
		return nil
	}
	have, err := s.find(ctx, a.Item, a.User)
	switch {
	case err != nil:
		return err
	case have.held:
		return nil
	case a.Now.Before(a.Item.ReserveUntil):
		return errNotHeldYet.With("reservation_closes_at", httpx.Moment(a.Item.ReserveUntil))
	default:
		return errNotHeld
	}
}

// Proved reports whether a user passed a human check when reserving an item, so
// that none is asked for at the path; the door asks it. An error
// says that it is not known at the moment.
func (s *Service) Proved(ctx context.Context, user, itemID int64) (bool, error) {
	item, ok := s.deps.Items.Item(itemID)
	if !ok || item.ReserveUntil.IsZero() {
		return false, nil
	}
	have, err := s.find(ctx, item, user)
	return have.held && have.human, err
}
