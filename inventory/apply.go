package inventory

import (
	"context"
	"fmt"

	"stampede/inventory/internal/inventorydb"
	"stampede/inventory/inventoryevent"
)

// Apply writes an item's committed changes to Redis. Only a newer revision
// takes effect there, so Apply may be called late, twice and from several
// instances. An item that is not loaded gets the changes from its Load.
func (s *Service) Apply(ctx context.Context, itemID int64) error {
	rows, err := inventorydb.New(s.deps.DB).StockOfItem(ctx, itemID)
	if err != nil {
		return fmt.Errorf("inventory: read stock of item %d: %w", itemID, err)
	}
	for _, st := range stocksOf(rows) {
		r, err := changeScript.run(ctx, s.deps.Redis, 4, []string{st.item().stateKey()},
			st.Rev, st.planned(), st.OpensAt.UnixMilli(), st.ClosesAt.UnixMilli(), st.UserLimit, flag(st.Paused), flag(st.Rebuy))
		if err != nil {
			return err
		}
		if added := r.int(3); added > 0 {
			s.announce(ctx, inventoryevent.SubjectReturned, inventoryevent.Returned{ItemID: itemID, Epoch: r.int(1), Rel: r.int(2)})
		}
	}
	return nil
}

// flag is a boolean in the form that the scripts expect.
func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
