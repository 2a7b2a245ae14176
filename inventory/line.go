package inventory

import (
	"context"
	"errors"

	"stampede/platform/base/ids"
)

// Queued reports whether the user's number holds units for which no order row
// exists yet, searching every item. It is for verify, which has no catalogue to
// narrow the search; an item that cannot answer now is an error only if no
// other item has the number.
func (s *Service) Queued(ctx context.Context, user int64, no ids.ID) (position, itemID int64, ok bool, err error) {
	stocks, err := s.allStock(ctx)
	if err != nil {
		return 0, 0, false, err
	}
	settled, err := s.settledEpochs(ctx)
	if err != nil {
		return 0, 0, false, err
	}
	var unclear error
	for _, st := range stocks {
		held, _, seq, persisted, found, err := s.Hold(ctx, st.item(), user)
		switch {
		case errors.Is(err, ErrFenced) && st.Epoch == 0:
			// Never loaded, so nothing of it was ever granted.
		case errors.Is(err, ErrFenced) && settled[st.ItemID] == st.Epoch:
			// Its keys were removed because nothing waited.
		case err != nil:
			unclear = errors.Join(unclear, err)
		case found && held == no && seq > 0:
			return max(0, seq-persisted), st.ItemID, true, nil
		}
	}
	return 0, 0, false, unclear
}
