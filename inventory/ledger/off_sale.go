package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/internal/inventorydb"
	"stampede/inventory/lua"
	"stampede/inventory/stock"
	"stampede/platform/base/fault"
	"stampede/platform/store/pg"
)

// The codes of withdraw.lua.
const (
	withdrawDone     = 0
	withdrawOtherRev = 3
)

// Where units go that leave the sale, for MoveUnits.
const (
	toBackup   = "backup"
	writtenOff = "written off"
	gone       = "gone"
)

// TakeOff takes units off an item's sale for good inside the caller's transaction, as many of them as are available
// in both counts, and returns how many: the item's total falls by them. It fails with ErrFenced while the item is on
// sale and does not decide. The caller calls Apply after the commit.
func (s *Service) TakeOff(ctx context.Context, tx pgx.Tx, itemID int64, units int32) (taken int32, err error) {
	return s.offSale(ctx, tx, itemID, units, gone)
}

// WriteOffFree is TakeOff for units that are lost or broken: they stay part of the total, as written off.
func (s *Service) WriteOffFree(ctx context.Context, tx pgx.Tx, itemID int64, units int32) (written int32, err error) {
	return s.offSale(ctx, tx, itemID, units, writtenOff)
}

// ToBackup is TakeOff for units that go to the item's backup.
func (s *Service) ToBackup(ctx context.Context, tx pgx.Tx, itemID int64, units int32) (moved int32, err error) {
	return s.offSale(ctx, tx, itemID, units, toBackup)
}

// FromBackup moves units from an item's backup to its sale inside the caller's transaction, as many of them as the
// backup has, and returns how many. The caller calls Apply after the commit.
func (s *Service) FromBackup(ctx context.Context, tx pgx.Tx, itemID int64, units int32) (moved int32, err error) {
	return s.moveUnits(ctx, tx, itemID, units, toBackup, -1, func(st stock.Row, units int32) (int32, error) { return min(units, st.Backup), nil })
}

// Free returns how many units of an item no shopper holds, neither in Redis nor in Postgres, and locks its stock
// rows: only a grant makes them fewer until tx ends.
func (s *Service) Free(ctx context.Context, tx pgx.Tx, itemID int64) (free int32, err error) {
	rows, err := stock.LockItem(ctx, tx, itemID)
	if err != nil {
		return 0, err
	}
	for _, st := range rows {
		n := int64(st.Available)
		state, ok, err := s.State(ctx, st.Item())
		if err != nil {
			return 0, fmt.Errorf("inventory: free units of item %d: %w", itemID, err)
		}
		if ok && state.Ready() { // otherwise the withdrawal says whether Postgres may decide alone
			n = min(n, state.Remaining)
		}
		free += int32(max(n, 0)) //nolint:gosec // at most what is available
	}
	return free, nil
}

// offSale takes units that no shopper holds off an item's sale.
//
// Redis comes first: it may have granted units whose orders Postgres does not have yet, and must not grant what
// Postgres has moved. The row lock is held meanwhile, so that the writer of this item waits for one call to Redis. If
// tx is rolled back the units are missing in Redis until the next change of the item or a comparison, see Mend.
func (s *Service) offSale(ctx context.Context, tx pgx.Tx, itemID int64, units int32, whither string) (moved int32, err error) {
	return s.moveUnits(ctx, tx, itemID, units, whither, 1, func(st stock.Row, units int32) (int32, error) {
		taken, err := s.withdraw(ctx, tx, st, units)
		return min(taken, st.Available), err
	})
}

// moveUnits locks an item's stock rows and moves what of says of each until units have moved; with the sign -1 they
// come back to the sale.
func (s *Service) moveUnits(
	ctx context.Context, tx pgx.Tx, itemID int64, units int32, whither string, sign int32, of func(st stock.Row, units int32) (int32, error),
) (moved int32, err error) {
	if units < 1 || units > MaxUnits {
		return 0, fault.Plain(fault.Invalid,
			fault.T("Between 1 and {most} units can be moved, not {units}.",
				"可转移 1 至 {most} 件，不能为 {units} 件。", "most", MaxUnits, "units", units))
	}
	q := inventorydb.New(tx)
	rows, err := stock.LockItem(ctx, tx, itemID)
	if err != nil {
		return 0, err
	}
	if len(rows) == 0 {
		return 0, fmt.Errorf("inventory: move units of item %d: %w", itemID, stock.ErrNoStock)
	}
	for _, st := range rows {
		if st.Unlimited {
			return 0, fault.Plain(fault.Invalid, fault.T("An unlimited item has no units to move.", "不限量商品没有可转移的库存。"))
		}
		n, err := of(st, units-moved)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			continue
		}
		moved += n
		if err := q.MoveUnits(ctx, inventorydb.MoveUnitsParams{Units: sign * n, Whither: whither, ItemID: st.ItemID, Shard: st.Shard}); err != nil {
			return 0, fmt.Errorf("inventory: move units of item %d: %w", itemID, err)
		}
	}
	return moved, nil
}

// withdraw takes units off the sale in Redis, at most those that remain, and returns how many. The stock row is
// locked by tx. Where Redis has nothing to say Postgres decides alone.
func (s *Service) withdraw(ctx context.Context, tx pgx.Tx, st stock.Row, units int32) (int32, error) {
	for range stock.EpochTurns {
		r, err := lua.Withdraw.Call(ctx, s.Redis, 2, []string{st.Item().StateKey()}, st.Rev, st.Planned(), units)
		if err != nil {
			return 0, err
		}
		switch r.Int(0) {
		case withdrawDone:
			return int32(r.Int(1)), nil //nolint:gosec // at most units
		case withdrawOtherRev: // an earlier change is on its way
			if err := s.Apply(ctx, st.ItemID); err != nil {
				return 0, err
			}
		default:
			stands, err := inventorydb.New(tx).SaleStands(ctx, inventorydb.SaleStandsParams{ItemID: st.ItemID, Shard: st.Shard})
			if err != nil {
				return 0, fmt.Errorf("inventory: check whether item %d is on sale: %w", st.ItemID, err)
			}
			if stands {
				return min(units, st.Available), nil
			}
			return 0, fmt.Errorf("inventory: take units of item %d off the sale: %w", st.ItemID, stock.ErrFenced)
		}
	}
	return 0, fmt.Errorf("inventory: item %d: its changes do not reach Redis: %w", st.ItemID, stock.ErrFenced)
}

// Mend returns to the sale in Redis what a withdrawal took whose transaction was rolled back, and reports whether
// there was any. The row lock excludes one that is under way.
func (s *Service) Mend(ctx context.Context, item stock.Item) (mended bool, err error) {
	err = pg.InTx(ctx, s.DB, func(tx pgx.Tx) error {
		mended = false
		locked, err := s.Lock(ctx, tx, []stock.Key{item.Key()})
		if err != nil {
			return err
		}
		for _, st := range locked {
			state, ok, err := s.State(ctx, item)
			if err != nil || !ok || stock.Withdrawn(st, state) <= 0 {
				return err
			}
			r, err := lua.Withdraw.Call(ctx, s.Redis, 2, []string{item.StateKey()}, st.Rev, st.Planned(), 0)
			if err != nil {
				return err
			}
			if mended = r.Int(0) == withdrawDone && r.Int(1) == 0; mended {
				s.AnnounceReturned(ctx, item.Key(), state.Epoch, state.Rel+1)
			}
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("inventory: item %d: return what was withdrawn: %w", item.ID, err)
	}
	return mended, nil
}
