package inventory

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/app"
	"stampede/platform/base/ids"
)

const (
	// mostHints bounds one item's work list: some milliseconds of work, and 300 KB.
	// An item with more is compared as a whole.
	mostHints = 4096
	// keepTimeout bounds one script call of a keeper, in case Redis hangs.
	keepTimeout = 5 * time.Second
	// retryFirst and retryMost bound the pause after a failure, which doubles. At
	// the longest, a unit is on sale again soon after Redis is, and a thousand
	// failing items cost two hundred small calls a second.
	retryFirst = 100 * time.Millisecond
	retryMost  = 5 * time.Second
	// fencedQuiet is how long an item may stay fenced before its keeper logs that:
	// longer than a Load takes.
	fencedQuiet = 25 * time.Second
	// failingAfter is how long an item's calls have failed when the alarm is raised,
	// and failingEvery how often it is raised again.
	failingAfter = 90 * time.Second
	failingEvery = 5 * time.Minute
)

// errStopping refuses a hint because this process is shutting down: its event is
// redelivered, to another instance or after the next start.
var errStopping = errors.New("inventory: the keepers have stopped")

// hint is what an event says about one number: the status that its order has
// entered, which is closed, refused, refunded, paid or statusRetaken.
type hint struct {
	no       ids.ID
	user     int64
	epoch    int64 // under which it was granted
	status   string
	quantity int32 // only with statusRetaken
}

// keepers are the work lists of this instance, one per item, and the goroutines
// that work them off. An item has a goroutine only while its list has entries.
type keepers struct {
	// mu guards the fields below; nothing is called while it is held.
	mu      sync.Mutex
	of      map[Item]*keeper
	ctx     context.Context // of the worker; nil unless it runs
	stopped bool
	idle    chan struct{} // closed when every list is empty; nil unless AwaitKeepers waits
	working sync.WaitGroup
	later   returns       // ends that wait for their time
	sooner  chan struct{} // wakes the worker for a new one; buffers one

	alarmAfter time.Duration // failingAfter; tests shorten it
	alarmEvery time.Duration // failingEvery; tests shorten it
}

// keeper is one item's work list.
type keeper struct {
	waiting []hint
	taken   int  // hints that the goroutine is applying
	working bool // the goroutine runs
	whole   bool // hints were dropped: the item has to be compared
}

// note puts hints on the work list of their item, from where they reach Redis
// within milliseconds. It does not wait. What does not fit is left to the next
// comparison.
func (s *Service) note(item Item, hints []hint) error {
	k := &s.keepers
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return errStopping
	}
	s.onList(item, hints) //nolint:contextcheck // see startKeeper
	return nil
}

// onList is note while keepers.mu is held and the keepers are not stopping.
func (s *Service) onList(item Item, hints []hint) {
	list := s.keepers.list(item)
	room := max(0, mostHints-len(list.waiting)-list.taken)
	if room < len(hints) {
		list.whole, hints = true, hints[:room]
	}
	list.waiting = append(list.waiting, hints...)
	s.startKeeper(item, list)
}

// startKeeper starts the item's goroutine if there is work and the worker runs.
// keepers.mu is held.
func (s *Service) startKeeper(item Item, list *keeper) { //nolint:contextcheck // a keeper outlives the event that starts it
	k := &s.keepers
	if k.ctx == nil || list.working || len(list.waiting) == 0 {
		return
	}
	list.working = true
	ctx := k.ctx
	k.working.Go(func() { s.keep(ctx, item) })
}

// takeHints takes everything that waits for the item, at most mostHints; nil ends
// its goroutine.
func (k *keepers) takeHints(item Item) []hint {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := k.of[item]
	hints := list.waiting
	list.waiting, list.taken = nil, len(hints)
	if len(hints) == 0 {
		k.endKeeper(item, list)
	}
	return hints
}

// endKeeper notes that the item's goroutine ends. keepers.mu is held.
func (k *keepers) endKeeper(item Item, list *keeper) {
	list.working, list.taken = false, 0
	if len(list.waiting) == 0 && !list.whole {
		delete(k.of, item)
	}
	if k.idle != nil && !k.busy() {
		close(k.idle)
		k.idle = nil
	}
}

// busy reports whether any list has entries or is being worked off; mu is held.
func (k *keepers) busy() bool {
	if len(k.later) > 0 {
		return true
	}
	for _, list := range k.of {
		if list.working || len(list.waiting) > 0 {
			return true
		}
	}
	return false
}

// runKeepers lets the keepers work until ctx ends. It then refuses further hints,
// and returns when those on the lists are applied or have failed once more.
func (s *Service) runKeepers(ctx context.Context) error {
	k := &s.keepers
	k.mu.Lock()
	k.ctx, k.stopped = ctx, false
	for item, list := range k.of {
		s.startKeeper(item, list) //nolint:contextcheck // see there
	}
	k.mu.Unlock()
	s.returnLater(ctx)
	k.mu.Lock()
	for _, r := range k.later {
		s.onList(r.item, []hint{r.hint}) //nolint:contextcheck // see there
	}
	k.later, k.ctx, k.stopped = nil, nil, true
	k.mu.Unlock()
	k.working.Wait()
	return nil
}

// AwaitKeepers returns when this instance's keepers have nothing to do, or with
// ctx's error. The worker must be running.
func (s *Service) AwaitKeepers(ctx context.Context) error {
	k := &s.keepers
	k.mu.Lock()
	if !k.busy() {
		k.mu.Unlock()
		return nil
	}
	if k.idle == nil {
		k.idle = make(chan struct{})
	}
	idle := k.idle
	k.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// keep works off one item's list. An item that fails is retried with a back-off;
// no other item waits for it. After ctx has ended, the first failure drops the
// list: a comparison finds what was on it.
func (s *Service) keep(ctx context.Context, item Item) {
	k := &s.keepers
	var out outage
	pause := retryFirst
	for hints := k.takeHints(item); len(hints) > 0; hints = k.takeHints(item) {
		for len(hints) > 0 {
			left, err := s.applyHints(ctx, item, hints)
			if err == nil {
				out, pause = outage{}, retryFirst
				break
			}
			hints = left
			if ctx.Err() == nil {
				s.warnAndRaise(ctx, item, &out, err)
			}
			if app.Sleep(ctx, pause) != nil {
				k.mu.Lock()
				k.of[item].waiting = nil
				k.endKeeper(item, k.of[item])
				k.mu.Unlock()
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

// takeWhole reports whether hints of the item were dropped, and clears the mark.
func (k *keepers) takeWhole(item Item) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := k.of[item]
	if list == nil || !list.whole {
		return false
	}
	list.whole = false
	if !list.working && len(list.waiting) == 0 {
		delete(k.of, item)
	}
	return true
}

// markWhole has the item compared as soon as possible.
func (k *keepers) markWhole(item Item) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list(item).whole = true
}

func (k *keepers) isWhole(item Item) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.of[item] != nil && k.of[item].whole
}

// list returns the item's work list, a new one if there is none; mu is held.
func (k *keepers) list(item Item) *keeper {
	list := k.of[item]
	if list == nil {
		list = &keeper{}
		if k.of == nil {
			k.of = map[Item]*keeper{}
		}
		k.of[item] = list
	}
	return list
}

// warnAndRaise logs an outage once, and raises the alarm while it lasts. A fenced
// item is about to be loaded, so it gets some time first.
func (s *Service) warnAndRaise(ctx context.Context, item Item, out *outage, cause error) {
	now := time.Now()
	if out.began.IsZero() {
		out.began = now
	}
	if !out.logged && (!errors.Is(cause, ErrFenced) || now.Sub(out.began) >= fencedQuiet) {
		out.logged = true
		s.deps.Log.WarnContext(ctx, "ended orders not applied to Redis, retrying", "item_id", item.ID, "error", cause)
	}
	if now.Sub(out.began) < s.keepers.alarmAfter || now.Sub(out.alarmed) < s.keepers.alarmEvery {
		return
	}
	out.alarmed = now
	if err := alarmReleaseFailing.Raise(ctx, s.deps.DB, ItemSubject(item.ID), cause.Error()); err != nil {
		s.deps.Log.WarnContext(ctx, "alarm not recorded", "code", string(alarmReleaseFailing.Code), "error", err)
	}
}

// applyHints brings numbers of one item to their ends in Redis, set-wise and in
// calls of bounded size, and returns those that failed. A panic is an error: it
// must not end the sale of every item.
func (s *Service) applyHints(ctx context.Context, item Item, hints []hint) (left []hint, err error) {
	left = hints // in case of a panic
	defer recovered("keeper", item, &err)
	byStatus := map[string][]hint{}
	for _, h := range hints {
		byStatus[h.status] = append(byStatus[h.status], h)
	}
	var failed []error
	var undone []hint
	for status, list := range byStatus {
		end := s.release
		switch status {
		case orderevent.StatusPaid:
			end = s.commit
		case statusRetaken:
			end = s.takeUp
		case orderevent.StatusRefunded:
			end = s.releaseRefunded
		}
		for len(list) > 0 {
			chunk := list[:min(len(list), scriptChunk)]
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

// recovered turns a panic of an item's work into its error. It is deferred.
func recovered(what string, item Item, err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("inventory: %s of item %d panicked: %v\n%s", what, item.ID, v, debug.Stack())
	}
}
