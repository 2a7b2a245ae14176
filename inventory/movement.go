package inventory

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/internal/inventorydb"
)

// Key identifies a stock row.
type Key struct {
	ItemID int64
	Shard  int16
}

// Stock is a stock row.
type Stock struct {
	Key
	ActivityID  int64
	PerActivity bool
	Total       int32
	Available   int32 // below zero is possible for unlimited items only
	Backup      int32
	WrittenOff  int32
	Retaken     int32 // units that paid late orders took from the backup, ever
	Unlimited   bool
	UserLimit   int32
	Rebuy       bool // see NewStock
	OpensAt     time.Time
	ClosesAt    time.Time
	Paused      bool
	Epoch       int64 // the last Load; grants of an older one must not be written
	Rev         int64
	Version     int64
}

// offered is what can be sold or is sold, without backup and written-off units.
func (st Stock) offered() int32 { return st.Total - st.Backup - st.WrittenOff }

// planned is what operators have put on sale: the units offered without those that
// late payments took from the backup.
func (st Stock) planned() int32 { return st.offered() - st.Retaken }

// item identifies the row's keys in Redis.
func (st Stock) item() Item {
	return Item{ID: st.ItemID, ActivityID: st.ActivityID, Shard: st.Shard, PerActivity: st.PerActivity}
}

func stockOf(r inventorydb.InventoryStock) Stock {
	return Stock{
		Key: Key{ItemID: r.ItemID, Shard: r.Shard}, ActivityID: r.ActivityID, PerActivity: r.PerActivity,
		Total: r.Total, Available: r.Available, Backup: r.Backup, WrittenOff: r.WrittenOff, Retaken: r.Retaken, Unlimited: r.Unlimited,
		UserLimit: r.UserLimit, Rebuy: r.Rebuy, OpensAt: r.OpensAt, ClosesAt: r.ClosesAt, Paused: r.Paused,
		Epoch: r.Epoch, Rev: r.Rev, Version: r.Version,
	}
}

func stocksOf(rows []inventorydb.InventoryStock) []Stock {
	stocks := make([]Stock, len(rows))
	for i, r := range rows {
		stocks[i] = stockOf(r)
	}
	return stocks
}

// Lock locks the stock rows of keys until the transaction ends, ordered by item
// and shard, and reads them. It comes before any lock on orders or payments. A
// key without a row is missing from the result.
func (s *Service) Lock(ctx context.Context, tx pgx.Tx, keys []Key) (map[Key]Stock, error) {
	p := inventorydb.LockStockParams{ItemIds: make([]int64, len(keys)), Shards: make([]int16, len(keys))}
	for i, k := range keys {
		p.ItemIds[i], p.Shards[i] = k.ItemID, k.Shard
	}
	rows, err := inventorydb.New(tx).LockStock(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("inventory: lock stock: %w", err)
	}
	locked := make(map[Key]Stock, len(rows))
	for _, r := range rows {
		st := stockOf(r)
		locked[st.Key] = st
	}
	return locked, nil
}

// Movement is units of one stock row that orders take or return.
type Movement struct {
	Key
	Quantity int32 // above 0
}

// Deduct takes units for orders that the same transaction inserts. The caller
// holds the rows' locks. If the units do not suffice the CHECK never_oversold
// fails (see pg.ViolatesCheck), and with it the transaction.
func (s *Service) Deduct(ctx context.Context, tx pgx.Tx, movements []Movement) error {
	return s.move(ctx, tx, movements, -1)
}

// Return returns the units of orders that the same transaction closes. The
// caller holds the rows' locks. Returning more than was taken fails the CHECK
// never_over_total.
func (s *Service) Return(ctx context.Context, tx pgx.Tx, movements []Movement) error {
	return s.move(ctx, tx, movements, 1)
}

// move changes stock rows in one statement. Every row has to exist: a missing one
// would lose its units silently.
func (s *Service) move(ctx context.Context, tx pgx.Tx, movements []Movement, sign int32) error {
	if len(movements) == 0 {
		return nil
	}
	n := len(movements)
	p := inventorydb.MoveStockParams{ItemIds: make([]int64, n), Shards: make([]int16, n), Units: make([]int32, n)}
	keys := make(map[Key]struct{}, n)
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
		return fmt.Errorf("inventory: %d of %d stock rows exist: %w", rows, len(keys), ErrNoStock)
	}
	return nil
}
