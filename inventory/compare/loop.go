package compare

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"stampede/inventory/keep"
	"stampede/inventory/stock"
	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/store/lease"
	"stampede/platform/watch/alarm"
)

const (
	// compareAtOnce bounds the concurrent walks of an instance: each uses at most one connection of Redis and of
	// Postgres, which the sale needs more.
	compareAtOnce = 2
	// compareTimeout bounds one walk: ten million holders take some minutes.
	compareTimeout = 10 * time.Minute
	// lookBack is by how much the changes that a comparison reads overlap with those of the one before: units of an
	// ended order may wait for MostReturnWithin, and a change may be committed some seconds after its time.
	lookBack = stock.MostReturnWithin + time.Minute
	// changesAtMost bounds the time whose changes are read at once: an item that has not been compared for longer is
	// looked at as a whole.
	changesAtMost = 10 * time.Minute
)

var alarmRedisDiffers = alarm.Define("redis-differs", alarm.Critical,
	fault.T("An item in Redis differs from its orders in Postgres in a way that is not repaired automatically. Postgres decides: nothing is oversold, but attempts may be refused after their 202.",
		"Redis 中某商品与 Postgres 的订单不一致，且不会自动修复。以 Postgres 为准：不会超卖，但已返回 202 的请求可能随后被拒绝。"),
	fault.T("Run `stampede reconcile --item N` with the item's number, which lists every difference with its cause. Pause the item if it is on sale. Delete its state key in Redis (its name ends in :<item>:state) to have it loaded again from Postgres.",
		"运行 `stampede reconcile --item N`（N 为商品编号），会列出每项差异及原因。若商品正在销售，请先暂停。删除其在 Redis 中的状态键（以 :<item>:state 结尾）后，会从 Postgres 重新加载。"))

// Comparisons is the state of the loop that compares items.
type Comparisons struct {
	s       *Service
	first   bool                     // a start compares every item: the process before may have lost its work lists
	Due     map[stock.Item]time.Time // when this instance asks for the item's lease again
	slots   chan struct{}            // one per concurrent walk
	Walks   sync.WaitGroup
	running sync.Map // stock.Item
	seen    sync.Map // stock.Item → seen
}

// NewComparisons returns a loop that compares every item in its first round.
func (s *Service) NewComparisons() *Comparisons {
	return &Comparisons{s: s, first: true, Due: map[stock.Item]time.Time{}, slots: make(chan struct{}, compareAtOnce)}
}

// RunComparing compares every loaded item again and again until ctx ends.
func (s *Service) RunComparing(ctx context.Context) error {
	c := s.NewComparisons()
	defer c.Walks.Wait()
	return app.Loop{Every: s.CompareTick, Log: s.Log, Failed: "items not compared with their orders", Do: func(ctx context.Context) error {
		_, err := c.Start(ctx)
		return err
	}}.Run(ctx)
}

// Start starts a walk over each item that is due and returns how many: those whose work list overflowed here, and
// those whose lease is free. The lease is left to expire, so that it also says when the item is due again.
func (c *Comparisons) Start(ctx context.Context) (started int, err error) {
	rows, err := c.s.LoadedStock(ctx)
	if err != nil {
		return 0, err
	}
	loaded := make(map[stock.Item]time.Time, len(rows))
	var changed *changes // read for the first item that is due
	for _, st := range rows {
		item := st.Item()
		loaded[item] = c.Due[item]
		_, running := c.running.Load(item)
		_, whole := c.s.keep.Dropped.Load(item)
		if running || !c.first && !whole && time.Now().Before(c.Due[item]) {
			continue
		}
		name := fmt.Sprintf("compare:%d:%d", item.ID, item.Shard)
		_, ok, err := lease.Acquire(ctx, c.s.DB, name, c.s.Holder, c.s.CompareEvery)
		if err != nil {
			return started, fmt.Errorf("inventory: compare item %d: %w", item.ID, err)
		}
		loaded[item] = time.Now().Add(c.s.CompareEvery)
		if ok || c.first || whole {
			if changed == nil {
				if changed, err = c.changes(ctx, rows); err != nil {
					return started, err
				}
			}
			c.walk(ctx, item, changed)
			started++
		}
	}
	c.seen.Range(func(item, _ any) bool {
		if _, ok := loaded[item.(stock.Item)]; !ok { //nolint:errcheck // it has no other keys
			c.seen.Delete(item)
		}
		return true
	})
	c.Due, c.first = loaded, false
	return started, nil
}

// changes reads what has changed since the oldest comparison.
func (c *Comparisons) changes(ctx context.Context, rows []stock.Row) (*changes, error) {
	now := time.Now()
	found := &changes{from: now, until: now, whole: c.s.CompareWhole, loads: map[int64]int64{}, seen: &c.seen}
	for _, r := range rows {
		found.loads[r.ActivityID] += r.Epoch
	}
	c.seen.Range(func(_, v any) bool {
		if at := v.(seen).at; at.Before(found.from) && now.Sub(at) < changesAtMost { //nolint:errcheck // it has no other values
			found.from = at
		}
		return true
	})
	var err error
	found.users, err = c.s.Books.ChangedWithin(ctx, now.Sub(found.from)+lookBack)
	return found, err
}

// walk compares an item in the background, when a slot is free.
func (c *Comparisons) walk(ctx context.Context, item stock.Item, changed *changes) {
	c.running.Store(item, true)
	c.Walks.Go(func() {
		defer c.running.Delete(item)
		select {
		case c.slots <- struct{}{}:
			defer func() { <-c.slots }()
		case <-ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(ctx, compareTimeout)
		defer cancel()
		if err := c.s.compareAndTell(ctx, item, changed); err != nil && ctx.Err() == nil {
			c.s.Log.WarnContext(ctx, "item not compared with its orders", "item_id", item.ID, "error", err)
		}
	})
}

// compareAndTell compares an item and raises an alarm for what it cannot repair.
func (s *Service) compareAndTell(ctx context.Context, item stock.Item, changed *changes) (err error) {
	defer keep.Recovered("comparison", item, &err)
	_, whole := s.keep.Dropped.LoadAndDelete(item)
	if whole {
		changed.seen.Delete(item)
	}
	repaired, found, err := s.compareOrders(ctx, item, restsFor, changed)
	switch {
	case errors.Is(err, stock.ErrFenced):
		err = nil // its Load counts everything
	case err != nil && whole:
		s.keep.Dropped.Store(item, true)
	}
	if repaired > 0 {
		s.Log.InfoContext(ctx, "item in Redis repaired from its orders", "item_id", item.ID, "repaired", repaired)
	}
	if err != nil || len(found) == 0 {
		return err
	}
	detail := found[0].Detail
	if n := len(found) - 1; n > 0 {
		detail += fmt.Sprintf(" There are %d more differences.", n)
	}
	return alarmRedisDiffers.Raise(ctx, s.DB, stock.ItemSubject(item.ID), detail)
}
