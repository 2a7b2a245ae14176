package preheat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"stampede/inventory"
	"stampede/platform/base/fault"
	"stampede/platform/watch/alarm"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilldb"
)

var alarmPreheatFailed = alarm.Define("preheat-failed", alarm.Critical,
	fault.T("An item could not be loaded several times in a row. It cannot be sold until it is loaded.",
		"某商品连续多次加载失败，加载成功之前无法开抢。"),
	fault.T("Check the health of Redis, NATS and Postgres and the log line \"item not loaded\". Loading is retried automatically.",
		"检查 Redis、NATS 和 Postgres 的状态以及日志 \"item not loaded\"，系统会自动重试加载。"))

const (
	// A failed Load of an item is retried after retryLeast; each further delay is
	// twice as long, up to retryMost.
	retryLeast = time.Second
	retryMost  = 30 * time.Second
	// alarmAfter is how many Loads of one item may fail in a row before an alarm
	// calls an operator: one failure is a blip, three in a row will not resolve
	// without help.
	alarmAfter = 3
)

// record is this instance's record of an item.
type record struct {
	busy     bool      // waiting for its Load on this instance, or being loaded
	notUntil time.Time // when the next Load may begin, after failures
	checked  time.Time // when a rush last had it checked
	failures int       // Loads failed in a row
	since    time.Time // when this record began
}

// record returns the item's record; s.mu is held.
func (s *Service) record(id int64) *record {
	r := s.items[id]
	if r == nil {
		r = &record{since: time.Now()}
		s.items[id] = r
	}
	return r
}

// isSlow reports whether an item that was never loaded should be by now.
func (s *Service) isSlow(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.record(id)
	return r.failures > 0 || time.Since(r.since) >= fencedFor
}

// trim drops the records of items that the catalogue no longer has.
func (s *Service) trim(known map[int64]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range s.items {
		if !known[id] && !r.busy {
			delete(s.items, id)
		}
	}
}

// mayHeal reports whether a rush may have the item checked again, and records
// the check. An item that waits for its Load moves to the front instead.
func (s *Service) mayHeal(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.record(id)
	if r.busy {
		s.queue.hurry(id)
		return false
	}
	if time.Since(r.checked) < healPause {
		return false
	}
	r.checked = time.Now()
	return true
}

// load calls inventory to load the item if a check under the item's lease shows
// that it is still needed: another instance may have loaded it since the first
// check. It records which request the Load has answered; an edit made meanwhile
// has raised load_wanted and is owed another Load. inventory.ErrBusy means that
// another instance is loading the item.
func (s *Service) load(ctx context.Context, item *catalogue.Item) error {
	return s.deps.Stock.LoadWith(ctx, item.ID, func(ctx context.Context, load func(context.Context) error) error {
		needed, wanted, err := s.needed(ctx, item)
		if err != nil || !needed {
			return err
		}
		if err := load(ctx); err != nil {
			return fmt.Errorf("seckill: load item %d: %w", item.ID, err)
		}
		if err := seckilldb.New(s.deps.DB).LoadDone(ctx, seckilldb.LoadDoneParams{ID: item.ID, Answered: wanted}); err != nil {
			return fmt.Errorf("seckill: record load of item %d: %w", item.ID, err)
		}
		s.loads.WithLabelValues("done").Inc()
		return nil
	})
}

// needed reports whether the item has to be loaded, and the value of
// load_wanted that a Load started now will answer.
func (s *Service) needed(ctx context.Context, item *catalogue.Item) (needed bool, wanted int32, err error) {
	ready, err := s.deps.Stock.Ready(ctx, item.Stock())
	if err != nil {
		return false, 0, fmt.Errorf("seckill: check item %d: %w", item.ID, err)
	}
	row, err := seckilldb.New(s.deps.DB).LoadWanted(ctx, item.ID)
	if err != nil {
		return false, 0, fmt.Errorf("seckill: read owed loads of item %d: %w", item.ID, err)
	}
	return !ready || row.LoadWanted > row.LoadDone, row.LoadWanted, nil
}

// loaded clears the failures of an item that is in order, whichever instance
// loaded it.
func (s *Service) loaded(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.items[id]; r != nil {
		r.failures = 0
	}
}

// loadEnded records how a Load ended. A failed one waits longer each time, and
// raises an alarm after enough failures. If another instance is loading the item,
// nothing changes: that Load may fail too.
func (s *Service) loadEnded(ctx context.Context, id int64, err error) {
	s.mu.Lock()
	r := s.record(id)
	r.busy = false
	switch {
	case ctx.Err() != nil || errors.Is(err, inventory.ErrBusy): // on a stop, another instance or the next start loads the item
		s.mu.Unlock()
		return
	case err == nil:
		r.failures = 0
		s.mu.Unlock()
		return
	}
	r.failures++
	failures := r.failures
	r.notUntil = time.Now().Add(min(retryLeast<<min(failures-1, 10), retryMost))
	s.mu.Unlock()

	s.loads.WithLabelValues("failed").Inc()
	s.deps.Log.WarnContext(ctx, "item not loaded", "item_id", id, "failures", failures, "error", err)
	if failures < alarmAfter {
		return
	}
	raised := alarmPreheatFailed.Raise(ctx, s.deps.DB, inventory.ItemSubject(id), fmt.Sprintf("%d Loads failed in a row, last error: %v", failures, err))
	if raised != nil {
		s.deps.Log.WarnContext(ctx, "alarm not raised", "code", string(alarmPreheatFailed.Code), "item_id", id, "error", raised)
	}
}

// loadsAtOnce bounds this instance's concurrent Loads. A Load mostly waits, for
// publishers and for the order writer, and holds no connection meanwhile; so the
// bound is far above the few connections of inventory and seckill, which the
// Loads use in turn for some milliseconds each. With this many Loads, other
// users of the pool wait for a connection for a tenth of a second at most.
const loadsAtOnce = 64

// queue is the items that wait for their Load. Nothing is dropped from it
// before the process stops: an item that is not loaded cannot be sold.
type queue struct {
	parallel int
	waiting  []waitingLoad
	running  int
	workers  sync.WaitGroup
}

type waitingLoad struct {
	item   *catalogue.Item
	wanted bool // a shopper has requested it
}

// next takes the most urgent item: those that shoppers have requested, then
// those on sale, then those that open soonest.
func (q *queue) next(now time.Time) *catalogue.Item {
	rank := func(w waitingLoad) int {
		switch {
		case w.wanted:
			return 0
		case !w.item.OpensAt.After(now):
			return 1
		default:
			return 2
		}
	}
	slices.SortFunc(q.waiting, func(a, b waitingLoad) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.item.OpensAt.Compare(b.item.OpensAt))
	})
	item := q.waiting[0].item
	q.waiting = q.waiting[1:]
	return item
}

// hurry records that a shopper has requested the item, if it is waiting.
func (q *queue) hurry(id int64) {
	for k := range q.waiting {
		if q.waiting[k].item.ID == id {
			q.waiting[k].wanted = true
			return
		}
	}
}

// enqueue queues an item for its Load, unless this instance is already loading
// it or failed to a moment ago.
func (s *Service) enqueue(item *catalogue.Item, wanted bool) {
	s.mu.Lock()
	r := s.record(item.ID)
	switch {
	case r.busy:
		if wanted {
			s.queue.hurry(item.ID)
		}
	case time.Now().Before(r.notUntil):
	default:
		r.busy = true
		s.queue.waiting = append(s.queue.waiting, waitingLoad{item, wanted})
	}
	s.mu.Unlock()
}

// startLoads starts as many of the waiting Loads as may run concurrently; each that
// ends starts the next. When the process stops, no further Load starts, and other
// instances load the items that waited.
func (s *Service) startLoads(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		for _, w := range s.queue.waiting {
			s.record(w.item.ID).busy = false
		}
		s.queue.waiting = nil
	}
	for s.queue.running < s.queue.parallel && len(s.queue.waiting) > 0 {
		item := s.queue.next(s.deps.Clock.Now())
		s.queue.running++
		s.queue.workers.Go(func() {
			s.loadEnded(ctx, item.ID, s.load(ctx, item))
			s.mu.Lock()
			s.queue.running--
			s.mu.Unlock()
			s.startLoads(ctx)
		})
	}
}
