package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/internal/inventorydb"
	"stampede/inventory/stock"
	"stampede/order/orderevent"
)

// Lock locks the stock rows of keys until the transaction ends, ordered by item and shard, and reads them. It comes
// before any lock on orders or payments. A key without a row is missing from the result.
func (s *Service) Lock(ctx context.Context, tx pgx.Tx, keys []stock.Key) (map[stock.Key]stock.Row, error) {
	p := inventorydb.LockStockParams{ItemIds: make([]int64, len(keys)), Shards: make([]int16, len(keys))}
	for i, k := range keys {
		p.ItemIds[i], p.Shards[i] = k.ItemID, k.Shard
	}
	rows, err := stock.Rows(inventorydb.New(tx).LockStock(ctx, p))
	if err != nil {
		return nil, err
	}
	locked := make(map[stock.Key]stock.Row, len(rows))
	for _, st := range rows {
		locked[st.Key()] = st
	}
	return locked, nil
}

// LockItem locks and reads all rows of an item, as Lock does: for what may need the units of any.
func (s *Service) LockItem(ctx context.Context, tx pgx.Tx, itemID int64) ([]stock.Row, error) {
	return stock.LockItem(ctx, tx, itemID)
}

// Movement is units of one stock row that orders take or return.
type Movement struct {
	stock.Key
	Quantity int32 // above 0
}

// Deduct takes units for orders that the same transaction inserts. The caller holds the rows' locks. If the units do
// not suffice the CHECK never_oversold fails (see pg.ViolatesCheck), and with it the transaction.
func (s *Service) Deduct(ctx context.Context, tx pgx.Tx, movements []Movement) error {
	return s.move(ctx, tx, movements, -1)
}

// Return returns the units of orders that the same transaction closes. The caller holds the rows' locks. Returning
// more than was taken fails the CHECK never_over_total.
func (s *Service) Return(ctx context.Context, tx pgx.Tx, movements []Movement) error {
	return s.move(ctx, tx, movements, 1)
}

// move changes stock rows in one statement. Every row has to exist: a missing one would lose its units silently.
func (s *Service) move(ctx context.Context, tx pgx.Tx, movements []Movement, sign int32) error {
	if len(movements) == 0 {
		return nil
	}
	n := len(movements)
	p := inventorydb.MoveStockParams{ItemIds: make([]int64, n), Shards: make([]int16, n), Units: make([]int32, n)}
	keys := make(map[stock.Key]struct{}, n)
	for i, m := range movements {
		if m.Quantity < 1 {
			return fmt.Errorf("inventory: a movement of item %d has quantity %d", m.ItemID, m.Quantity)
		}
		p.ItemIds[i], p.Shards[i], p.Units[i] = m.ItemID, m.Shard, sign*m.Quantity
		keys[m.Key] = struct{}{}
	}
	rows, err := inventorydb.New(tx).MoveStock(ctx, p)
	if err != nil {
		return fmt.Errorf("inventory: move stock: %w", err)
	}
	if rows != int64(len(keys)) {
		// Continuing would write orders whose units no row counts.
		return fmt.Errorf("inventory: %d of %d stock rows exist: %w", rows, len(keys), stock.ErrNoStock)
	}
	return nil
}

// WriteOff takes units of orders that the same transaction refunds out of what is offered: they are not sold again.
// The caller holds the rows' locks.
//
// In Redis a written-off unit takes two steps, in this order: the operator's change lowers total and remaining
// (Apply), then the release of its number returns the unit to remaining. So it is never on sale in between, in
// whatever way Redis learns of it: an event, a comparison, or a Load, which reads both from one snapshot. Until the
// release remaining may be below zero, which grants nothing.
func (s *Service) WriteOff(ctx context.Context, tx pgx.Tx, movements []Movement) error {
	q := inventorydb.New(tx)
	for _, m := range movements {
		n, err := q.WriteOffStock(ctx, inventorydb.WriteOffStockParams{Units: m.Quantity, ItemID: m.ItemID, Shard: m.Shard})
		if err != nil {
			return fmt.Errorf("inventory: write off units of item %d: %w", m.ItemID, err)
		}
		if n == 0 {
			return fmt.Errorf("inventory: write off units of item %d: %w", m.ItemID, stock.ErrNoStock)
		}
	}
	return nil
}

// Retake takes an order's units from the backup of its item, inside the transaction that turns the order from
// closed into paid. It returns false if the backup has too few. The caller has locked the item.
func (s *Service) Retake(ctx context.Context, tx pgx.Tx, o *orderevent.Order) (bool, error) {
	q := inventorydb.New(tx)
	p := inventorydb.RetakeParams{OrderNo: o.No, ItemID: o.ItemID, Shard: o.Shard, UserID: o.UserID, Quantity: o.Quantity}
	rows, err := q.Retake(ctx, p)
	if err == nil && rows == 0 {
		if err = q.GatherBackup(ctx, inventorydb.GatherBackupParams{ItemID: o.ItemID, Shard: o.Shard}); err == nil {
			rows, err = q.Retake(ctx, p)
		}
	}
	if err != nil {
		return false, fmt.Errorf("inventory: take order %s up again: %w", o.No, err)
	}
	return rows == 1, nil
}

// Retakes reads which orders of the item were ever taken up again.
func (s *Service) Retakes(ctx context.Context, db inventorydb.DBTX, itemID int64) ([]inventorydb.RetakenOfItemRow, error) {
	rows, err := inventorydb.New(db).RetakenOfItem(ctx, itemID)
	if err != nil {
		return nil, fmt.Errorf("inventory: read orders of item %d taken up again: %w", itemID, err)
	}
	return rows, nil
}
