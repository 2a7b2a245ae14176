package inventory

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/internal/inventorydb"
)

// WriteOff takes units of orders that the same transaction refunds out of what is
// offered: they are not sold again. The caller holds the rows' locks.
//
// In Redis a written-off unit takes two steps, in this order: the operator's change
// lowers total and remaining (Apply), then the release of its number returns the
// unit to remaining. So it is never on sale in between, in whatever way Redis
// learns of it: an event, a comparison, or a Load, which reads both from one
// snapshot. Until the release remaining may be below zero, which grants nothing.
func (s *Service) WriteOff(ctx context.Context, tx pgx.Tx, movements []Movement) error {
	q := inventorydb.New(tx)
	for _, m := range movements {
		n, err := q.WriteOffStock(ctx, inventorydb.WriteOffStockParams{Units: m.Quantity, ItemID: m.ItemID, Shard: m.Shard})
		if err != nil {
			return fmt.Errorf("inventory: write off units of item %d: %w", m.ItemID, err)
		}
		if n == 0 {
			return fmt.Errorf("inventory: write off units of item %d: %w", m.ItemID, ErrNoStock)
		}
	}
	return nil
}

// releaseRefunded releases the numbers of refunded orders, some of which may have
// been written off; see WriteOff.
func (s *Service) releaseRefunded(ctx context.Context, item Item, orders []hint) error {
	if err := s.Apply(ctx, item.ID); err != nil {
		return err
	}
	return s.release(ctx, item, orders)
}
