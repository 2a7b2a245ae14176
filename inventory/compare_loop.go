package inventory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"stampede/inventory/internal/inventorydb"
	"stampede/platform/base/app"
	"stampede/platform/store/lease"
)

const (
	// compareEvery is how often an item is compared, by one instance of all.
	// Together with compareTick and the walk itself that is less than a minute.
	compareEvery = 40 * time.Second
	// compareTick is how often an instance looks for items that are due.
	compareTick = 10 * time.Second
	// compareAtOnce bounds the concurrent walks of an instance: each uses at most
	// one connection of Redis and of Postgres, which the sale needs more.
	compareAtOnce = 2
	// compareTimeout bounds one walk: ten million holders take some minutes.
	compareTimeout = 10 * time.Minute
)

// comparisons is the state of the loop that compares items.
type comparisons struct {
	s     *Service
	first bool               // a start compares every item: the process before may have lost its work lists
	due   map[Item]time.Time // when this instance asks for the item's lease again
	slots chan struct{}      // one per concurrent walk
	walks sync.WaitGroup

	mu      sync.Mutex
	running map[Item]bool
}

func (s *Service) newComparisons() *comparisons {
	return &comparisons{s: s, first: true, due: map[Item]time.Time{}, slots: make(chan struct{}, compareAtOnce), running: map[Item]bool{}}
}

// runComparing compares every loaded item again and again until ctx ends.
func (s *Service) runComparing(ctx context.Context) error {
	c := s.newComparisons()
	defer c.walks.Wait()
	return app.Loop{Every: s.compareTick, Log: s.deps.Log, Failed: "items not compared with their orders", Do: func(ctx context.Context) error {
		_, err := c.start(ctx)
		return err
	}}.Run(ctx)
}

// start starts a walk over each item that is due and returns how many: those
// whose work list overflowed here, and those whose lease is free. The lease is
// left to expire, so that it also says when the item is due again.
func (c *comparisons) start(ctx context.Context) (started int, err error) {
	rows, err := inventorydb.New(c.s.deps.DB).LoadedStock(ctx)
	if err != nil {
		return 0, fmt.Errorf("inventory: find loaded items: %w", err)
	}
	loaded := make(map[Item]time.Time, len(rows))
	for _, st := range stocksOf(rows) {
		item := st.item()
		loaded[item] = c.due[item]
		whole := c.s.keepers.isWhole(item)
		if c.isRunning(item) || !c.first && !whole && time.Now().Before(c.due[item]) {
			continue
		}
		name := fmt.Sprintf("compare:%d:%d", item.ID, item.Shard)
		_, ok, err := lease.Acquire(ctx, c.s.deps.DB, name, c.s.holder, c.s.compareEvery)
		if err != nil {
			return started, fmt.Errorf("inventory: compare item %d: %w", item.ID, err)
		}
		loaded[item] = time.Now().Add(c.s.compareEvery)
		if ok || c.first || whole {
			c.walk(ctx, item)
			started++
		}
	}
	c.due, c.first = loaded, false
	return started, nil
}

func (c *comparisons) isRunning(item Item) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running[item]
}

// walk compares an item in the background, when a slot is free.
func (c *comparisons) walk(ctx context.Context, item Item) {
	c.mu.Lock()
	c.running[item] = true
	c.mu.Unlock()
	c.walks.Go(func() {
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.running, item)
		}()
		select {
		case c.slots <- struct{}{}:
			defer func() { <-c.slots }()
		case <-ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(ctx, compareTimeout)
		defer cancel()
		if err := c.s.compareAndTell(ctx, item); err != nil && ctx.Err() == nil {
			c.s.deps.Log.WarnContext(ctx, "item not compared with its orders", "item_id", item.ID, "error", err)
		}
	})
}

// compareAndTell compares an item and raises an alarm for what it cannot repair.
func (s *Service) compareAndTell(ctx context.Context, item Item) (err error) {
	defer recovered("comparison", item, &err)
	whole := s.keepers.takeWhole(item)
	repaired, found, err := s.compareOrders(ctx, item, restsFor)
	switch {
	case errors.Is(err, ErrFenced):
		err = nil // its Load counts everything
	case err != nil && whole:
		s.keepers.markWhole(item)
	}
	if repaired > 0 {
		s.deps.Log.InfoContext(ctx, "item in Redis repaired from its orders", "item_id", item.ID, "repaired", repaired)
	}
	if err != nil || len(found) == 0 {
		return err
	}
	detail := found[0].detail
	if n := len(found) - 1; n > 0 {
		detail += fmt.Sprintf(" There are %d more differences.", n)
	}
	return alarmRedisDiffers.Raise(ctx, s.deps.DB, ItemSubject(item.ID), detail)
}
