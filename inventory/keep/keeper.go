// Package keep applies the ends of orders to Redis: what their events say, by work lists that are worked off item by
// item.
package keep

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/inventory/ledger"
	"stampede/inventory/lua"
	"stampede/inventory/stock"
	"stampede/order/orderevent"
	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/watch/alarm"
)

const (
	// mostHints bounds one item's work list: some milliseconds of work, and 300 KB. An item with more is compared as
	// a whole.
	mostHints = 4096
	// keepTimeout bounds one script call of a keeper, in case Redis hangs.
	keepTimeout = 5 * time.Second
	// retryFirst and retryMost bound the pause after a failure, which doubles. At the longest, a unit is on sale
	// again soon after Redis is, and a thousand failing items cost two hundred small calls a second.
	retryFirst = 100 * time.Millisecond
	retryMost  = 5 * time.Second
	// fencedQuiet is how long an item may stay fenced before its keeper logs that: longer than a Load takes.
	fencedQuiet = 25 * time.Second
)

// errStopping refuses a hint because this process is shutting down: its event is redelivered, to another instance or
// after the next start.
var errStopping = errors.New("inventory: the keepers have stopped")

var alarmReleaseFailing = alarm.Define("release-failing", alarm.Critical,
	fault.T("Closed or paid orders of an item cannot be applied to Redis, so its returned units are not on sale. Its keeper keeps retrying; other items are not affected.",
		"某商品已关闭或已支付的订单无法同步到 Redis，退回的库存未能重新销售。正在持续重试，其他商品不受影响。"),
	fault.T("Read the alarm's detail; check the health and memory of Redis. If the item's keys are damaged, delete its state key in Redis (its name ends in :<item>:state): the item is then loaded again automatically.",
		"查看告警详情，检查 Redis 的状态和内存。若商品的键已损坏，请删除其状态键（以 :<item>:state 结尾），商品会自动重新加载。"))

// Hint is what an event says about one number: the status that its order has entered, which is closed, refused,
// refunded, paid or StatusRetaken.
type Hint struct {
	No       ids.ID
	User     int64
	Epoch    int64 // under which it was granted
	Status   string
	Quantity int32 // only with StatusRetaken
}

// Service has the work lists of this instance, one per item, and the goroutines that work them off. An item has a
// goroutine only while its list has entries.
type Service struct {
	*stock.Store
	ledger  *ledger.Service
	ended   *prometheus.CounterVec
	Dropped sync.Map // the items that have to be compared, because hints of them were dropped

	// mu guards the fields below; nothing is called while it is held.
	mu      sync.Mutex
	of      map[stock.Item]*keeper
	ctx     context.Context // of the worker; nil unless it runs
	stopped bool
	working sync.WaitGroup
	later   map[*returning]*time.Timer // ends that wait for their time
}

// New returns the service.
func New(store *stock.Store, rows *ledger.Service) *Service {
	s := &Service{
		Store: store, ledger: rows,
		of: map[stock.Item]*keeper{}, later: map[*returning]*time.Timer{},
		ended: promauto.With(store.Metrics).NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_inventory_holds_ended_total", Help: "Holds that ended in Redis, by end: released, committed, retaken (paid late, from the backup).",
		}, []string{"end"}),
	}
	for _, end := range []string{"released", "committed", "retaken"} {
		s.ended.WithLabelValues(end) // now, so that the first rate is right
	}
	return s
}

// keeper is one item's work list.
type keeper struct {
	waiting []Hint
	taken   int  // hints that the goroutine is applying
	working bool // the goroutine runs
}

// onList puts hints on the work list of their item, from where they reach Redis within milliseconds. What does not
// fit is left to a comparison. mu is held, and the service is not stopping.
func (s *Service) onList(item stock.Item, hints ...Hint) {
	list := s.of[item]
	if list == nil {
		list = &keeper{}
		s.of[item] = list
	}
	room := max(0, mostHints-len(list.waiting)-list.taken)
	if room < len(hints) {
		s.Dropped.Store(item, true)
		hints = hints[:room]
	}
	list.waiting = append(list.waiting, hints...)
	s.startKeeper(item, list)
}

// startKeeper starts the item's goroutine if there is work and the worker runs. mu is held.
func (s *Service) startKeeper(item stock.Item, list *keeper) { //nolint:contextcheck // a keeper outlives the event that starts it
	if s.ctx == nil || list.working || len(list.waiting) == 0 {
		return
	}
	list.working = true
	ctx := s.ctx
	s.working.Go(func() { s.keep(ctx, item) })
}

// takeHints takes everything that waits for the item, at most mostHints; nil ends its goroutine.
func (s *Service) takeHints(item stock.Item) []Hint {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.of[item]
	hints := list.waiting
	list.waiting, list.taken = nil, len(hints)
	if len(hints) == 0 {
		s.endKeeper(item, list)
	}
	return hints
}

// endKeeper notes that the item's goroutine ends. mu is held.
func (s *Service) endKeeper(item stock.Item, list *keeper) {
	list.working, list.taken = false, 0
	if len(list.waiting) == 0 {
		delete(s.of, item)
	}
}

// Idle reports whether no order's end waits for its time or for Redis.
func (s *Service) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.later)+len(s.of) == 0
}

// Run lets the keepers work until ctx ends. It then refuses further hints, and returns when those on the lists are
// applied or have failed once more.
func (s *Service) Run(ctx context.Context) error {
	s.mu.Lock()
	s.ctx, s.stopped = ctx, false
	for item, list := range s.of {
		s.startKeeper(item, list) //nolint:contextcheck // see there
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	for r, timer := range s.later {
		timer.Stop()
		s.onList(r.item, r.hint) //nolint:contextcheck // see there
	}
	clear(s.later)
	s.ctx, s.stopped = nil, true
	s.mu.Unlock()
	s.working.Wait()
	return nil
}

// keep works off one item's list. An item that fails is retried with a back-off; no other item waits for it. After
// ctx has ended, the first failure drops the list: a comparison finds what was on it.
func (s *Service) keep(ctx context.Context, item stock.Item) {
	var out outage
	pause := retryFirst
	for hints := s.takeHints(item); len(hints) > 0; hints = s.takeHints(item) {
		for len(hints) > 0 {
			left, err := s.ApplyHints(ctx, item, hints)
			if err == nil {
				out, pause = outage{}, retryFirst
				break
			}
			hints = left
			if ctx.Err() == nil {
				s.warnAndRaise(ctx, item, &out, err)
			}
			if app.Sleep(ctx, pause) != nil {
				s.mu.Lock()
				s.of[item].waiting = nil
				s.endKeeper(item, s.of[item])
				s.mu.Unlock()
				return
			}
			pause = min(2*pause, retryMost)
		}
	}
}

// outage is a time in which an item's calls fail.
type outage struct {
	began, alarmed time.Time
	logged         bool
}

// warnAndRaise logs an outage once, and raises the alarm while it lasts. A fenced item is about to be loaded, so it
// gets some time first.
func (s *Service) warnAndRaise(ctx context.Context, item stock.Item, out *outage, cause error) {
	now := time.Now()
	if out.began.IsZero() {
		out.began = now
	}
	if !out.logged && (!errors.Is(cause, stock.ErrFenced) || now.Sub(out.began) >= fencedQuiet) {
		out.logged = true
		s.Log.WarnContext(ctx, "ended orders not applied to Redis, retrying", "item_id", item.ID, "error", cause)
	}
	if now.Sub(out.began) < s.AlarmAfter || now.Sub(out.alarmed) < s.AlarmEvery {
		return
	}
	out.alarmed = now
	if err := alarmReleaseFailing.Raise(ctx, s.DB, stock.ItemSubject(item.ID), cause.Error()); err != nil {
		s.Log.WarnContext(ctx, "alarm not recorded", "code", string(alarmReleaseFailing.Code), "error", err)
	}
}

// ApplyHints brings numbers of one item to their ends in Redis, set-wise and in calls of bounded size, and returns
// those that failed. A panic is an error: it must not end the sale of every item.
func (s *Service) ApplyHints(ctx context.Context, item stock.Item, hints []Hint) (left []Hint, err error) {
	left = hints // in case of a panic
	defer Recovered("keeper", item, &err)
	byStatus := map[string][]Hint{}
	for _, h := range hints {
		byStatus[h.Status] = append(byStatus[h.Status], h)
	}
	var failed []error
	var undone []Hint
	for status, list := range byStatus {
		end := s.release
		switch status {
		case orderevent.StatusPaid:
			end = s.commit
		case StatusRetaken:
			end = s.takeUp
		case orderevent.StatusRefunded:
			end = s.releaseRefunded
		}
		for len(list) > 0 {
			chunk := list[:min(len(list), lua.Chunk)]
			// A call under way when the process stops still ends.
			call, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
			err := end(call, item, chunk)
			cancel()
			if err != nil {
				undone, failed = append(undone, list...), append(failed, err)
				break
			}
			list = list[len(chunk):]
		}
	}
	return undone, errors.Join(failed...)
}

// Recovered turns a panic of an item's work into its error. It is deferred.
func Recovered(what string, item stock.Item, err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("inventory: %s of item %d panicked: %v\n%s", what, item.ID, v, debug.Stack())
	}
}
