package inventory

import (
	"context"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/internal/inventorydb"
)

// ToBackup moves units from an item's sale to its backup inside the caller's
// transaction, as many of them as are available in both counts, and returns how
// many. It fails with ErrFenced while the item is on sale and does not decide. The
// caller calls Apply after the commit.
func (s *Service) ToBackup(ctx context.Context, tx pgx.Tx, itemID int64, units int32) (moved int32, err error) {
	return s.offSale(ctx, tx, itemID, units, moveToBackup)
}

// FromBackup moves units from an item's backup to its sale inside the caller's
// transaction, as many of them as the backup has, and returns how many. The caller
// calls Apply after the commit.
func (s *Service) FromBackup(ctx context.Context, tx pgx.Tx, itemID int64, units int32) (moved int32, err error) {
	return s.moveUnits(ctx, tx, itemID, units, func(st Stock, units int32) (int32, error) {
		return min(units, st.Backup), nil
	}, func(ctx context.Context, q *inventorydb.Queries, st Stock, units int32) error {
		return moveToBackup(ctx, q, st, -units)
	})
}

func moveToBackup(ctx context.Context, q *inventorydb.Queries, st Stock, units int32) error {
	return q.MoveToBackup(ctx, inventorydb.MoveToBackupParams{Units: units, ItemID: st.ItemID, Shard: st.Shard})
}
