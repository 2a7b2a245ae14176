package reservation

import (
	"context"

	"stampede/platform/edge/httpx"
	"stampede/seckill/rush"
)

// Check is a rush.DoorCheck: if the session requires a reservation, only users
// who have one pass. Without an answer from Postgres no shopper passes.
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
		return ErrNotHeld
	}
}

// Proved reports whether a user passed a human check when reserving an item, so
// that the door requires none for the path. An error means that this is unknown
// at the moment.
func (s *Service) Proved(ctx context.Context, user, itemID int64) (bool, error) {
	item, ok := s.deps.Items.Item(itemID)
	if !ok || item.ReserveUntil.IsZero() {
		return false, nil
	}
	have, err := s.find(ctx, item, user)
	return have.held && have.human, err
}
