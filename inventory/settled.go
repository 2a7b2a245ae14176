package inventory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stampede/inventory/internal/inventorydb"
	"stampede/platform/base/app"
	"stampede/platform/store/lease"
)

const (
	// settleEvery is how often the module checks for ended items: memory is freed
	// minutes after a sale, so a minute more does not matter.
	settleEvery = time.Minute
	// settleLease is the lease on that check; it lasts for a few rounds, and each
	// item is also settled under the lease of its Load.
	settleLease     = "inventory:settle"
	settleLeaseLife = 3 * settleEvery
	// settleAtMost bounds one round. A shop in which more items end per minute
	// catches up at night.
	settleAtMost = 500
	// settleTimeout bounds one item: reading its orders and its holders.
	settleTimeout = 20 * time.Second
	// forgetEvery is how often the guesses of epochs and the comparisons' results are
	// dropped, so that those of long ended items do not accumulate: each that is
	// needed again costs one call or walk.
	forgetEvery = time.Hour
)

// Workers are the module's loops: they apply the ends of orders to Redis, and
// free the memory of ended items, in Redis and in this process.
func (s *Service) Workers() []app.Worker {
	forget := app.Loop{Every: forgetEvery, Do: func(context.Context) error { s.epochs.Clear(); s.compared.Clear(); return nil }}
	return []app.Worker{
		{Name: "inventory-keeper", Run: s.runKeepers},
		{Name: "inventory-compare", Run: s.runComparing},
		{Name: "inventory-settle", Run: s.runSettling},
		{Name: "inventory-forget", Run: forget.Run},
	}
}

// runSettling settles items until ctx ends, on one instance at a time.
func (s *Service) runSettling(ctx context.Context) error {
	elector := lease.Elector{DB: s.deps.DB, Name: settleLease, Holder: s.holder, TTL: settleLeaseLife}
	defer func() {
		if err := elector.Resign(ctx); err != nil {
			s.deps.Log.WarnContext(ctx, "settling lease left to expire", "error", err)
		}
	}()
	return app.Loop{Every: settleEvery, Log: s.deps.Log, Failed: "ended items not settled yet", Do: func(ctx context.Context) error {
		ok, err := elector.IsLeader(ctx)
		if ok && err == nil {
			_, err = s.Settle(ctx)
		}
		return err
	}}.Run(ctx)
}

// Settle removes from Redis the keys of items that are over and settled in
// Postgres: no order waits for its payment, nothing is granted and not written,
// nothing is closed and not released, and both counts agree. It returns how many
// items it settled. An item that is not ready waits for the next call; one whose
// counts differ keeps its keys, because they are the evidence.
//
// From then on only Postgres has the item: a late return finds no state and
// needs nothing, nothing loads the item again, and the checks use Postgres
// alone.
func (s *Service) Settle(ctx context.Context) (int, error) {
	due, err := inventorydb.New(s.deps.DB).DueForSettling(ctx, inventorydb.DueForSettlingParams{SettleAfter: s.cfg.SettleAfter, AtMost: settleAtMost})
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
		err := s.underLease(ctx, itemID, func(ctx context.Context, itemID, _ int64) error {
			ctx, cancel := context.WithTimeout(ctx, settleTimeout)
			defer cancel()
			var err error
			done, err = s.settle(ctx, itemID)
			return err
		})
		if err != nil && !errors.Is(err, ErrBusy) {
			failed = append(failed, fmt.Errorf("inventory: settle item %d: %w", itemID, err))
		}
		if done {
			settled++
		}
	}
	return settled, errors.Join(failed...)
}

// settle settles one item under the lease of its Load, so that no Load writes
// keys meanwhile. It reports whether the item is settled now.
func (s *Service) settle(ctx context.Context, itemID int64) (bool, error) {
	// The stream is read before the books: a grant that has left it by now has its
	// order row by the time Postgres is read.
	queue, err := s.deps.Grants.State(ctx)
	if err != nil {
		return false, err
	}
	if done, err := s.deps.Grants.Done(ctx, itemID, queue.Last); err != nil || !done {
		return false, err
	}
	c, err := s.readCut(ctx, itemID)
	if err != nil || len(c.stocks) == 0 {
		return false, err
	}
	if !c.accountedFor() {
		return false, s.reconcileEnded(ctx, c)
	}
	for i, st := range c.stocks {
		if removed, err := s.removeKeys(ctx, st, c.shards[i]); err != nil || !removed {
			return false, err
		}
	}
	if item := c.stocks[0].item(); item.PerActivity {
		if err := s.removeLastBuyers(ctx, item); err != nil {
			return false, err
		}
	}
	if err := inventorydb.New(s.deps.DB).NoteSettled(ctx, inventorydb.NoteSettledParams{ItemID: itemID, Epoch: c.epoch()}); err != nil {
		return false, fmt.Errorf("record it: %w", err)
	}
	s.deps.Log.InfoContext(ctx, "item settled", "item_id", itemID, "epoch", c.epoch())
	return true, nil
}

// reconcileEnded reconciles an item that is over, unless it only waits for
// payments. What it cannot repair is an alarm; the item keeps its keys.
func (s *Service) reconcileEnded(ctx context.Context, c *cut) error {
	if c.sum().Held != 0 {
		return nil
	}
	r, err := s.reconcile(ctx, c.stocks, true)
	if n := len(r.Differences); n > 0 {
		s.deps.Log.WarnContext(ctx, "ended item differs from its orders", "item_id", c.itemID, "differences", n, "open", r.Open())
	}
	return err
}

// accountedFor reports whether every unit of an ended item is either sold or
// still available, in Postgres and in Redis.
func (c *cut) accountedFor() bool {
	row := c.sum()
	if row.Held != 0 || row.Difference != 0 {
		return false
	}
	if !row.Loaded {
		return true // Redis decides nothing, and the removal checks its holds
	}
	for _, sh := range c.shards {
		if len(sh.holds) > 0 {
			return false
		}
	}
	return row.atRest()
}

// epoch is the item's last Load according to Postgres.
func (c *cut) epoch() int64 {
	var last int64
	for _, st := range c.stocks {
		last = max(last, st.Epoch)
	}
	return last
}

// removeKeys removes one counter's keys, and returns false if something moved
// since the cut.
func (s *Service) removeKeys(ctx context.Context, st Stock, sh shardCut) (bool, error) {
	item := st.item()
	state, found, err := s.State(ctx, item)
	if err != nil {
		return false, err
	}
	if found {
		args := []any{state.Epoch, "", "", "", "", weightField}
		if sh.loaded {
			args = []any{sh.state.Epoch, sh.state.Remaining, sh.state.Committed, sh.state.Rel, sh.state.Seq, weightField}
		}
		keys := append([]string{item.stateKey()}, item.epochKeys(state.Epoch)...)
		r, err := settleScript.run(ctx, s.deps.Redis, 1, keys, args...)
		if err != nil {
			return false, err
		}
		if r.int(0) == settleKept {
			return false, nil
		}
	}
	if !found || state.Epoch != st.Epoch {
		// A Load that stopped half way left keys that no state names.
		if err := s.deps.Redis.Unlink(ctx, item.epochKeys(st.Epoch)...).Err(); err != nil {
			return false, fmt.Errorf("free keys: %w", err)
		}
	}
	s.epochs.Delete(item)
	s.grants.Delete(item.ID)
	return true, nil
}

// settleKept is the code of settle.lua for keys that are still needed.
const settleKept = 2

// removeLastBuyers removes the list of an activity's buyers if this item is the
// last one to be settled.
func (s *Service) removeLastBuyers(ctx context.Context, item Item) error {
	others, err := inventorydb.New(s.deps.DB).OtherItemsUnsettled(ctx, inventorydb.OtherItemsUnsettledParams{ActivityID: item.ActivityID, ItemID: item.ID})
	if err != nil {
		return fmt.Errorf("find the activity's other items: %w", err)
	}
	if others {
		return nil
	}
	if err := s.deps.Redis.Unlink(ctx, item.buyersKey()).Err(); err != nil {
		return fmt.Errorf("free the activity's buyers: %w", err)
	}
	return nil
}

// settledEpochs returns the items whose keys were removed, with the Load that
// had written the keys.
func (s *Service) settledEpochs(ctx context.Context) (map[int64]int64, error) {
	rows, err := inventorydb.New(s.deps.DB).SettledItems(ctx)
	if err != nil {
		return nil, fmt.Errorf("inventory: read settled items: %w", err)
	}
	settled := make(map[int64]int64, len(rows))
	for _, r := range rows {
		settled[r.ItemID] = r.Epoch
	}
	return settled, nil
}
