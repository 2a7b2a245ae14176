package compare

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stampede/inventory/books"
	"stampede/inventory/internal/inventorydb"
	"stampede/inventory/lua"
	"stampede/inventory/stock"
	"stampede/platform/base/app"
	"stampede/platform/store/lease"
)

const (
	// settleEvery is how often the module checks for ended items: memory is freed minutes after a sale, so a minute
	// more does not matter.
	settleEvery = time.Minute
	// settleLease is the lease on that check; a dead instance is replaced within a few rounds, and each item is also
	// settled under the lease of its Load.
	settleLease     = "inventory:settle"
	settleLeaseLife = 3 * settleEvery
	// settleAtMost bounds one round. A shop in which more items end per minute catches up at night.
	settleAtMost = 500
	// settleTimeout bounds one item: reading its orders and its holders.
	settleTimeout = 20 * time.Second
)

// RunSettling settles items until ctx ends, on one instance at a time.
func (s *Service) RunSettling(ctx context.Context) error {
	return lease.Lead(ctx, s.DB, settleLease, s.Holder, settleLeaseLife, app.Loop{
		Every: settleEvery, Log: s.Log, Failed: "ended items not settled yet",
		Do: func(ctx context.Context) error { _, err := s.Settle(ctx); return err },
	})
}

// Settle removes from Redis the keys of items that are over and settled in Postgres: no order waits for its payment,
// nothing is granted and not written, nothing is closed and not released, and both counts agree. It returns how many
// items it settled. An item that is not ready waits for the next call; one whose counts differ keeps its keys,
// because they are the evidence.
//
// From then on only Postgres has the item: a late return finds no state and needs nothing, nothing loads the item
// again, and the checks use Postgres alone.
func (s *Service) Settle(ctx context.Context) (int, error) {
	due, err := inventorydb.New(s.DB).DueForSettling(ctx, inventorydb.DueForSettlingParams{SettleAfter: s.SettleAfter, AtMost: settleAtMost})
	if err != nil {
		return 0, fmt.Errorf("inventory: find ended items: %w", err)
	}
	settled := 0
	var failed []error
	for _, itemID := range due {
		if ctx.Err() != nil {
			break
		}
		done := false
		err := s.load.UnderLease(ctx, itemID, func(ctx context.Context, _ int64) error {
			ctx, cancel := context.WithTimeout(ctx, settleTimeout)
			defer cancel()
			var err error
			done, err = s.settle(ctx, itemID)
			return err
		})
		if err != nil && !errors.Is(err, stock.ErrBusy) {
			failed = append(failed, fmt.Errorf("inventory: settle item %d: %w", itemID, err))
		}
		if done {
			settled++
		}
	}
	return settled, errors.Join(failed...)
}

// settle settles one item under the lease of its Load, so that no Load writes keys meanwhile. It reports whether the
// item is settled now.
func (s *Service) settle(ctx context.Context, itemID int64) (bool, error) {
	// The stream is read before the books: a grant that has left it by now has its order row by the time Postgres is
	// read.
	queue, err := s.Grants.State(ctx)
	if err != nil {
		return false, err
	}
	if done, err := s.Grants.Done(ctx, itemID, queue.Last); err != nil || !done {
		return false, err
	}
	c, err := s.books.ReadCut(ctx, itemID)
	if err != nil || len(c.Stocks) == 0 {
		return false, err
	}
	if !c.AccountedFor() {
		return false, s.reconcileEnded(ctx, c)
	}
	for i, st := range c.Stocks {
		if removed, err := s.removeKeys(ctx, st, c.Shards[i]); err != nil || !removed {
			return false, err
		}
	}
	if item := c.Stocks[0].Item(); item.PerActivity {
		if err := s.FreeBuyers(ctx, item, itemID); err != nil {
			return false, err
		}
	}
	if err := inventorydb.New(s.DB).NoteSettled(ctx, inventorydb.NoteSettledParams{ItemID: itemID, Epoch: c.Epoch()}); err != nil {
		return false, fmt.Errorf("record it: %w", err)
	}
	s.Log.InfoContext(ctx, "item settled", "item_id", itemID, "epoch", c.Epoch())
	return true, nil
}

// reconcileEnded reconciles an item that is over, unless it only waits for payments. What it cannot repair is an
// alarm; the item keeps its keys.
func (s *Service) reconcileEnded(ctx context.Context, c *books.Cut) error {
	if c.Sum().Held != 0 {
		return nil
	}
	r, err := s.reconcile(ctx, c.Stocks, true, false)
	if n := len(r.Differences); n > 0 {
		s.Log.WarnContext(ctx, "ended item differs from its orders", "item_id", c.ItemID, "differences", n, "open", r.Open())
	}
	return err
}

// removeKeys removes one counter's keys, and returns false if something moved since the cut.
func (s *Service) removeKeys(ctx context.Context, st stock.Row, sh books.ShardCut) (bool, error) {
	item := st.Item()
	state, found, err := s.State(ctx, item)
	if err != nil {
		return false, err
	}
	if found {
		args := []any{state.Epoch, "", "", "", "", stock.WeightField}
		if sh.Loaded {
			args = []any{sh.State.Epoch, sh.State.Remaining, sh.State.Committed, sh.State.Rel, sh.State.Seq, stock.WeightField}
		}
		keys := append([]string{item.StateKey()}, item.EpochKeys(state.Epoch)...)
		r, err := lua.Settle.Call(ctx, s.Redis, 1, keys, args...)
		if err != nil {
			return false, err
		}
		if r.Int(0) == settleKept {
			return false, nil
		}
	}
	if !found || state.Epoch != st.Epoch {
		// A Load that stopped half way left keys that no state names.
		if err := s.Redis.Unlink(ctx, item.EpochKeys(st.Epoch)...).Err(); err != nil {
			return false, fmt.Errorf("free keys: %w", err)
		}
	}
	s.Epochs.Delete(item)
	s.decide.Granted.Delete(item.ID)
	return true, nil
}

// settleKept is the code of settle.lua for keys that are still needed.
const settleKept = 2
