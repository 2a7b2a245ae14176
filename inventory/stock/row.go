package stock

import (
	"context"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/internal/inventorydb"
)

// Key identifies a stock row.
type Key struct {
	ItemID int64
	Shard  int16
}

// Row is a stock row. Available may be below zero for unlimited items only; Backup has the units that late payments
// have not taken, and Retaken those that they took, ever; grants of an Epoch before the last Load must not be
// written.
type Row inventorydb.InventoryStock

// Key identifies the row.
func (st Row) Key() Key { return Key{ItemID: st.ItemID, Shard: st.Shard} }

// Offered is what can be sold or is sold, without backup and written-off units.
func (st Row) Offered() int32 { return st.Total - st.Backup - st.WrittenOff }

// Planned is what operators have put on sale: the units offered without those that late payments took from the
// backup.
func (st Row) Planned() int32 { return st.Offered() - st.Retaken }

// Item identifies the row's keys in Redis.
func (st Row) Item() Item {
	return Item{ID: st.ItemID, ActivityID: st.ActivityID, Shard: st.Shard, PerActivity: st.PerActivity}
}

// Items identify the keys of rows, in their order.
func Items(rows []Row) []Item {
	items := make([]Item, len(rows))
	for i, st := range rows {
		items[i] = st.Item()
	}
	return items
}

// Rows are the rows that a query returns, or its error.
func Rows(rows []inventorydb.InventoryStock, err error) ([]Row, error) {
	if err != nil {
		return nil, fmt.Errorf("inventory: read stock: %w", err)
	}
	all := make([]Row, len(rows))
	for i, r := range rows {
		all[i] = Row(r)
	}
	return all, nil
}

// Withdrawn are units that a withdrawal took off the sale in Redis and that Postgres has not moved: it is under way,
// or its transaction ended without a commit.
func Withdrawn(st Row, state State) int64 {
	if state.Rev != st.Rev {
		return 0
	}
	return int64(st.Planned()) - (state.Total - state.Retaken)
}

// PerItem yields the stock rows item by item.
func PerItem(stocks []Row) iter.Seq[[]Row] {
	return func(yield func([]Row) bool) {
		for len(stocks) > 0 {
			n := 1
			for n < len(stocks) && stocks[n].ItemID == stocks[0].ItemID {
				n++
			}
			if !yield(stocks[:n]) {
				return
			}
			stocks = stocks[n:]
		}
	}
}

// OfItem reads an item's rows, ordered by shard.
func OfItem(ctx context.Context, db inventorydb.DBTX, itemID int64) ([]Row, error) {
	return Rows(inventorydb.New(db).StockOfItems(ctx, []int64{itemID}))
}

// LockItem locks an item's rows until the transaction ends, and reads them.
func LockItem(ctx context.Context, tx pgx.Tx, itemID int64) ([]Row, error) {
	return Rows(inventorydb.New(tx).LockStockOfItem(ctx, itemID))
}

// AllStock reads every stock row, ordered by item and shard.
func (s *Store) AllStock(ctx context.Context) ([]Row, error) {
	return Rows(inventorydb.New(s.DB).AllStock(ctx))
}

// StockOnSale reads the rows of items that are on sale now.
func (s *Store) StockOnSale(ctx context.Context, most int32) ([]Row, error) {
	return Rows(inventorydb.New(s.DB).StockOnSale(ctx, most))
}

// LoadedStock reads the rows of items that have keys in Redis.
func (s *Store) LoadedStock(ctx context.Context) ([]Row, error) {
	return Rows(inventorydb.New(s.DB).LoadedStock(ctx))
}

// SettledEpochs returns the items whose keys were removed, with the Load that had written the keys.
func (s *Store) SettledEpochs(ctx context.Context) (map[int64]int64, error) {
	rows, err := inventorydb.New(s.DB).SettledItems(ctx)
	if err != nil {
		return nil, fmt.Errorf("inventory: read settled items: %w", err)
	}
	settled := make(map[int64]int64, len(rows))
	for _, r := range rows {
		settled[r.ItemID] = r.Epoch
	}
	return settled, nil
}
