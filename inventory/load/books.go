package load

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/internal/inventorydb"
	"stampede/inventory/stock"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm"
)

// raiseEpoch moves the item to the epoch in Postgres: from then on the order writer refuses grants of older epochs,
// so that only closings can change what a later snapshot has, which the new epoch will get as releases. An item that
// is to have more shards gets them here.
func (s *Service) raiseEpoch(ctx context.Context, itemID int64, f fenced) error {
	epoch, shards := f.epoch, len(f.items)
	return pg.InTx(ctx, s.DB, func(tx pgx.Tx) error {
		q := inventorydb.New(tx)
		rows, err := stock.LockItem(ctx, tx, itemID)
		if err != nil {
			return err
		}
		if 0 < len(rows) && len(rows) < shards && rows[0].Epoch < epoch {
			return s.keptAlive(f.alive, func() error { return s.reshard(ctx, tx, rows, shards, epoch) })
		}
		for _, st := range rows {
			raised, err := q.RaiseEpoch(ctx, inventorydb.RaiseEpochParams{ItemID: itemID, Shard: st.Shard, Epoch: epoch})
			if err != nil {
				return fmt.Errorf("inventory: raise epoch of item %d: %w", itemID, err)
			}
			if raised == 0 {
				return overtaken(itemID, epoch, st.Epoch)
			}
		}
		return nil
	})
}

func overtaken(itemID, epoch, by int64) error {
	return fmt.Errorf("inventory: load item %d: epoch %d was overtaken by %d: %w", itemID, epoch, by, stock.ErrBusy)
}

// rewrite brings the keys in Redis to what the books say, as of one snapshot, and returns a writer per stock row,
// each ready to open its part. It reads and writes in chunks, so that its memory does not depend on how many orders
// there are, and keeps a connection and the snapshot meanwhile, but no lock. Half of the module's connections may be
// used for that; other Loads wait.
func (s *Service) rewrite(ctx context.Context, itemID int64, f fenced) (writers []*loadWriter, err error) {
	for waiting := true; waiting; {
		select {
		case s.writing <- struct{}{}:
			waiting = false
		case <-time.After(s.Stall / 3):
			f.alive() // the Loads that write are watched themselves
		case <-ctx.Done():
			return nil, loading(itemID, fmt.Errorf("wait for other loads: %w", ctx.Err()))
		}
	}
	defer func() { <-s.writing }()
	f.alive()
	err = pgx.BeginTxFunc(ctx, s.DB, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		rows, err := stock.OfItem(ctx, tx, itemID)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return loading(itemID, stock.ErrNoStock)
		}
		for _, st := range rows {
			if st.Epoch != f.epoch {
				return overtaken(itemID, f.epoch, st.Epoch)
			}
			writers = append(writers, s.newLoadWriter(st, len(rows), f, func(each func(user int64, m stock.Mark) error) error {
				return s.eachMark(ctx, tx, st, func(user int64, m stock.Mark) error {
					if stock.HomeOf(ids.Bucket(user), len(rows)) != st.Shard {
						return nil
					}
					return each(user, m)
				})
			}))
		}
		return s.rewriteIn(ctx, tx, writers)
	})
	return writers, err
}

func (s *Service) rewriteIn(ctx context.Context, tx pgx.Tx, writers []*loadWriter) error {
	of := func(bucket int16) *loadWriter { return writers[stock.HomeOf(bucket, len(writers))] }
	item := writers[0].item.ID
	for _, w := range writers {
		if err := w.begin(ctx); err != nil {
			return err
		}
	}
	err := s.eachMark(ctx, tx, writers[0].stock, func(user int64, m stock.Mark) error { return of(ids.Bucket(user)).mark(ctx, user, m) })
	if err != nil {
		return err
	}
	retaken, err := s.ledger.Retakes(ctx, tx, item)
	if err != nil {
		return err
	}
	again := make(map[ids.ID]bool, len(retaken))
	for _, r := range retaken {
		again[r.OrderNo] = true
		if err := of(r.OrderNo.Bucket()).bury(ctx, r.OrderNo, forGood); err != nil {
			return err
		}
	}
	err = s.Holds.Ended(ctx, tx, item, func(part []stock.Tombstone) error {
		for _, g := range part {
			if again[g.No] {
				continue
			}
			if err := of(g.No.Bucket()).bury(ctx, g.No, g.Until.UnixMilli()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("inventory: load item %d: read ended orders: %w", item, err)
	}
	for _, w := range writers {
		if err := w.finish(ctx); err != nil {
			return err
		}
	}
	return nil
}

// eachMark passes every user to each who has a mark by the books, once.
func (s *Service) eachMark(ctx context.Context, tx pgx.Tx, st stock.Row, each func(user int64, m stock.Mark) error) error {
	pass := func(part []stock.Held) error {
		for _, h := range part {
			if err := each(h.User, stock.Mark{No: h.No, Quantity: h.Quantity, Paid: h.Paid, Closed: h.Closed}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.Holds.Live(ctx, tx, st.ItemID, pass); err != nil {
		return fmt.Errorf("inventory: load item %d: read live orders: %w", st.ItemID, err)
	}
	if st.Rebuy {
		return nil
	}
	if err := s.Holds.Closed(ctx, tx, st.ItemID, pass); err != nil {
		return fmt.Errorf("inventory: load item %d: read closed orders: %w", st.ItemID, err)
	}
	return nil
}

var alarmBooksDiffer = alarm.Define("books-differ", alarm.Critical,
	fault.T("While an item was loaded, its stock row and its live orders did not add up. It was loaded from the stock row, which CHECK constraints guard.",
		"加载商品时，其库存记录与有效订单对不上。已按库存记录加载，该记录有 CHECK 约束保护。"),
	fault.T("Run `stampede verify`; pause the item if it is on sale.",
		"运行 `stampede verify`；若商品正在销售，请先暂停。"))

// compare raises an alarm if the row and the orders differ. The item is loaded nevertheless, from the row, which
// CHECKs guard.
func (s *Service) compare(ctx context.Context, itemID int64, writers []*loadWriter) error {
	var offered, available, live int64
	for _, w := range writers {
		offered += int64(w.stock.Offered())
		available += int64(w.stock.Available)
		live += w.live
	}
	if available+live == offered {
		return nil
	}
	s.Log.ErrorContext(ctx, "books differ", "item_id", itemID, "offered", offered, "available", available, "live", live)
	return alarmBooksDiffer.Raise(ctx, s.DB, "item "+strconv.FormatInt(itemID, 10),
		fmt.Sprintf("%d units are on offer, %d available and %d in live orders.", offered, available, live))
}
