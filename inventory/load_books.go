package inventory

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/internal/inventorydb"
	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
)

// Held is a live order's claim on an item's units.
type Held struct {
	No       ids.ID
	User     int64
	Quantity int32
	Paid     bool
}

// Tombstone is a number that has ended and must not be granted again while its path
// may still be used.
type Tombstone struct {
	No    ids.ID
	Until time.Time
}

// Closed is the last order of a user that was closed unpaid.
type Closed struct {
	No   ids.ID
	User int64
}

// itemBooks is an item in Postgres at one moment.
type itemBooks struct {
	stocks []Stock
	live   []Held
	recent []Tombstone
	closed []Closed // only if a user may buy only once
}

// shardOf is the stock counter that a user's units come from.
func (b itemBooks) shardOf(user int64) Stock { return b.stocks[int(ids.Bucket(user))%len(b.stocks)] }

// readBooks moves the item to the epoch and reads its books in one transaction:
// from its commit on the order writer refuses grants of older epochs, so that
// only closings can change what was read, which the new epoch will get as
// releases.
func (s *Service) readBooks(ctx context.Context, itemID, epoch int64) (itemBooks, error) {
	var b itemBooks
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		q := inventorydb.New(tx)
		rows, err := q.LockStockOfItem(ctx, itemID)
		if err != nil {
			return fmt.Errorf("inventory: lock stock of item %d: %w", itemID, err)
		}
		if len(rows) == 0 {
			return fmt.Errorf("inventory: load item %d: %w", itemID, ErrNoStock)
		}
		b.stocks = stocksOf(rows)
		for _, st := range b.stocks {
			raised, err := q.RaiseEpoch(ctx, inventorydb.RaiseEpochParams{ItemID: itemID, Shard: st.Shard, Epoch: epoch})
			if err != nil {
				return fmt.Errorf("inventory: raise epoch of item %d: %w", itemID, err)
			}
			if raised == 0 {
				return fmt.Errorf("inventory: load item %d: epoch %d was overtaken by %d: %w", itemID, epoch, st.Epoch, ErrBusy)
			}
		}
		if b.live, b.recent, err = s.deps.Holds.Holds(ctx, tx, itemID); err != nil {
			return fmt.Errorf("inventory: read holds of item %d: %w", itemID, err)
		}
		if b.closed = nil; !b.stocks[0].Rebuy {
			if b.closed, err = s.deps.Holds.Closed(ctx, tx, itemID); err != nil {
				return fmt.Errorf("inventory: read closed orders of item %d: %w", itemID, err)
			}
		}
		return nil
	})
	if err != nil {
		return itemBooks{}, err
	}
	return b, s.compare(ctx, itemID, b)
}

// compare raises an alarm if the row and the orders differ. The item is loaded
// nevertheless, from the row, which CHECKs guard.
func (s *Service) compare(ctx context.Context, itemID int64, b itemBooks) error {
	var offered, available, live int64
	for _, st := range b.stocks {
		offered += int64(st.offered())
		available += int64(st.Available)
	}
	for _, h := range b.live {
		live += int64(h.Quantity)
	}
	if available+live == offered {
		return nil
	}
	s.deps.Log.ErrorContext(ctx, "books differ", "item_id", itemID, "offered", offered, "available", available, "live", live)
	return alarmBooksDiffer.Raise(ctx, s.deps.DB, "item "+strconv.FormatInt(itemID, 10),
		fmt.Sprintf("%d units are on offer, %d available and %d in live orders.", offered, available, live))
}
