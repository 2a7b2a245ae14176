// Package ledger writes the stock rows: the units that orders take and return, and what operators plan and move. A
// change of the plan reaches Redis from here too.
package ledger

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/internal/inventorydb"
	"stampede/inventory/lua"
	"stampede/inventory/stock"
	"stampede/platform/base/fault"
	"stampede/platform/store/pg"
)

// Service writes the stock rows, most of them inside its callers' transactions.
type Service struct {
	*stock.Store
	plans     sync.Map // item id → plan, as of the last time that its rows were locked to borrow
	borrowing sync.Map // item id → chan struct{}, of one place: one borrower of this process at a time
}

// New returns the service.
func New(store *stock.Store) *Service { return &Service{Store: store} }

// MaxUnits is the most units one item may have: far above any flash sale, and far below where sums of several items
// would overflow an int32.
const MaxUnits = 10_000_000

// NewStock is an item's stock at its publication.
type NewStock struct {
	stock.Item
	Total     int32 // units on offer, also those beyond the goods in stock by agreement, 0 … MaxUnits; for unlimited items the count begins here and may go below zero
	Backup    int32 // units held back beside Total, for payments that arrive after their order was closed; with them 0 … MaxUnits, 0 for unlimited items
	Unlimited bool
	UserLimit int32 // units per user, 1 or more
	// Rebuy lets a user whose unpaid order was closed, or whose order was refunded, buy again. Without it that order
	// keeps counting as bought, for the whole activity if PerActivity. An order that the system refused never counts.
	Rebuy    bool
	OpensAt  time.Time
	ClosesAt time.Time
	Paused   bool
}

// Create writes the stock row of an item that is being published, inside the caller's transaction. A Load writes it
// into Redis.
func (s *Service) Create(ctx context.Context, tx pgx.Tx, n NewStock) error {
	if n.Total < 0 || n.Total > MaxUnits {
		return fault.Plain(fault.Invalid,
			fault.T("An item has 0 to {most} units, not {units}.",
				"商品库存为 0 至 {most}，不能为 {units}。", "most", MaxUnits, "units", n.Total))
	}
	if n.Backup < 0 || n.Backup > MaxUnits-n.Total || n.Unlimited && n.Backup > 0 {
		return fault.Plain(fault.Invalid,
			fault.T("An item has at most {most} units with its backup of {backup}, and an unlimited one has no backup.",
				"商品连同备用 {backup} 件最多 {most} 件，不限量商品没有备用库存。", "most", MaxUnits, "backup", n.Backup))
	}
	if n.UserLimit < 1 {
		return fault.Plain(fault.Invalid, fault.T("The limit per user is at least 1.", "每人限购至少为 1。"))
	}
	if !n.ClosesAt.After(n.OpensAt) {
		return fault.Plain(fault.Invalid, fault.T("A sale closes after it opens.", "抢购结束须晚于开抢。"))
	}
	err := inventorydb.New(tx).CreateStock(ctx, inventorydb.CreateStockParams{
		ItemID: n.ID, Shard: n.Shard, ActivityID: n.ActivityID, PerActivity: n.PerActivity, Total: n.Total + n.Backup, Available: n.Total,
		Backup: n.Backup, Unlimited: n.Unlimited, UserLimit: n.UserLimit, Rebuy: n.Rebuy, OpensAt: n.OpensAt, ClosesAt: n.ClosesAt,
		Paused: n.Paused,
	})
	if err != nil {
		return fmt.Errorf("inventory: create stock of item %d: %w", n.ID, err)
	}
	return nil
}

// Change is what an operator may change while an item is on sale; nil leaves a field unchanged.
type Change struct {
	AddStock  *int32 // units to add, above 0
	Paused    *bool
	OpensAt   *time.Time
	ClosesAt  *time.Time
	UserLimit *int32
	Rebuy     *bool // only before the opening: orders closed earlier are not read again
}

// Change writes an operator's change and raises the item's revision, inside the caller's transaction. Apply writes it
// to Redis after the commit; after a crash in between, the next Apply or Load does.
func (s *Service) Change(ctx context.Context, tx pgx.Tx, itemID int64, c Change) error {
	p := inventorydb.ChangeStockParams{ItemID: itemID, Paused: c.Paused, OpensAt: c.OpensAt, ClosesAt: c.ClosesAt, UserLimit: c.UserLimit, Rebuy: c.Rebuy}
	if c.AddStock != nil {
		// Units cannot be removed: shoppers may hold them.
		if *c.AddStock < 1 || *c.AddStock > MaxUnits {
			return fault.Plain(fault.Invalid,
				fault.T("Between 1 and {most} units can be added, not {units}.",
					"可增加 1 至 {most} 件，不能为 {units} 件。", "most", MaxUnits, "units", *c.AddStock))
		}
		p.AddStock = *c.AddStock
	}
	rows, err := inventorydb.New(tx).ChangeStock(ctx, p)
	switch {
	case pg.ViolatesCheck(err, "sale_has_a_span"):
		return fault.Plain(fault.Invalid, fault.T("A sale closes after it opens.", "抢购结束须晚于开抢。")).Because(err)
	case pg.ViolatesCheck(err, "limit_is_positive"):
		return fault.Plain(fault.Invalid, fault.T("The limit per user is at least 1.", "每人限购至少为 1。")).Because(err)
	case pg.ViolatesCheck(err, "total_is_bounded"):
		return fault.Plain(fault.Invalid,
			fault.T("An item has at most {most} units.", "商品最多 {most} 件。", "most", MaxUnits)).Because(err)
	case err != nil:
		return fmt.Errorf("inventory: change stock of item %d: %w", itemID, err)
	case rows == 0:
		return fmt.Errorf("inventory: change item %d: %w", itemID, stock.ErrNoStock)
	}
	return nil
}

// Plan is an item's units as operators planned them, whatever became of them.
type Plan struct {
	OnSale int64
	Backup int64 // also those that late payments took
	Paused bool
}

// Totals reads each item's plan from the stock rows themselves: the rows that Books keeps in memory are no proof.
func (s *Service) Totals(ctx context.Context) (map[int64]Plan, error) {
	stocks, err := s.AllStock(ctx)
	if err != nil {
		return nil, err
	}
	totals := make(map[int64]Plan, len(stocks))
	for _, st := range stocks {
		t := totals[st.ItemID]
		t.OnSale += int64(st.Planned()) + int64(st.WrittenOff)
		t.Backup += int64(st.Backup) + int64(st.Retaken)
		t.Paused = t.Paused || st.Paused
		totals[st.ItemID] = t
	}
	return totals, nil
}

// Delete removes the stock of items that never opened, inside the caller's transaction. Forget removes the keys of a
// preheat from Redis, after the commit.
func (s *Service) Delete(ctx context.Context, tx pgx.Tx, itemIDs []int64) error {
	if err := inventorydb.New(tx).DeleteStock(ctx, itemIDs); err != nil {
		return fmt.Errorf("inventory: delete stock of %d items: %w", len(itemIDs), err)
	}
	return nil
}

// Apply writes an item's committed changes to Redis. Only a newer revision takes effect there, so Apply may be called
// late, twice and from several instances. An item that is not loaded gets the changes from its Load.
func (s *Service) Apply(ctx context.Context, itemID int64) error {
	rows, err := stock.OfItem(ctx, s.DB, itemID)
	if err != nil {
		return err
	}
	return s.applyRows(ctx, rows)
}

func (s *Service) applyRows(ctx context.Context, rows []stock.Row) error {
	for _, st := range rows {
		r, err := lua.Change.Call(ctx, s.Redis, 4, []string{st.Item().StateKey()},
			st.Rev, st.Planned(), st.OpensAt.UnixMilli(), st.ClosesAt.UnixMilli(), st.UserLimit, lua.Flag(st.Paused), lua.Flag(st.Rebuy))
		if err != nil {
			return err
		}
		if added := r.Int(3); added > 0 {
			s.AnnounceReturned(ctx, st.Key(), r.Int(1), r.Int(2))
		}
	}
	return nil
}
