package rush

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/store/redisx"
	"stampede/seckill/catalogue"
)

// shards are an item's lanes on this instance, one for each stock shard that the
// item has by the newest epoch seen. An attempt waits in the lane of its user's
// shard, because only that knows whether the user holds a unit already; so a Redis
// node that hangs delays no other node's shoppers.
type shards struct {
	known atomic.Pointer[layout]
	lanes atomic.Pointer[[]*lane]
	mu    sync.Mutex // serialises writers of lanes, and what raises the flag
	ended bool       // under mu
}

// layout is how many shards an item has under an epoch.
type layout struct {
	epoch int64
	count int16
}

// see records what a decision says of the item's shards.
func (s *shards) see(epoch int64, count int16) {
	for known := s.known.Load(); count > 0 && epoch > known.epoch; known = s.known.Load() {
		if s.known.CompareAndSwap(known, &layout{epoch, count}) {
			return
		}
	}
}

// shardOf is the shard of a user.
func (s *shards) shardOf(user int64) int16 {
	if n := s.known.Load().count; n > 1 {
		return inventory.HomeOf(ids.Bucket(user), int(n))
	}
	return 0
}

// laneOf is the lane of a user, which begins with its first attempt; nil after the end.
func (l *lane) laneOf(user int64) *lane {
	shard := int(l.shards.shardOf(user))
	if all := *l.shards.lanes.Load(); shard < len(all) {
		return all[shard]
	}
	return l.shards.grow(l, shard+1)[shard]
}

// grow adds lanes up to so many. After the end the new ones have ended too.
func (s *shards) grow(like *lane, count int) []*lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := append([]*lane{}, *s.lanes.Load()...)
	for len(all) < count {
		l := newLaneOf(like.item, int16(len(all)), like.line, like.flag, s) //nolint:gosec // below inventory.MostShards
		if s.ended {
			l.close() // it never has an attempt, and drain may not wait for workers any more
		} else {
			l.begin()
		}
		all = append(all, l)
	}
	s.lanes.Store(&all)
	return all
}

// end ends all lanes of an item.
func (s *shards) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, l := range *s.lanes.Load() {
		l.close()
	}
}

// stillFor bounds how long raising the flag keeps lanes waiting for one whose Redis node
// hangs; a decision takes a few milliseconds.
const stillFor = 200 * time.Millisecond

// still waits until no lane of the item has a decision under way, and keeps it so until
// release: the users of a batch may be granted what the flag's filter does not know yet.
// It fails if a lane is held up, or another one raises the flag.
func (s *shards) still() (release func(), ok bool) {
	if !s.mu.TryLock() {
		return nil, false
	}
	var quiet []*lane
	release = func() {
		for _, l := range quiet {
			<-l.asks
		}
		s.mu.Unlock()
	}
	late := time.After(stillFor)
	for _, l := range *s.lanes.Load() {
		select {
		case l.asks <- struct{}{}:
			quiet = append(quiet, l)
		case <-late:
			release()
			return nil, false
		}
	}
	return release, true
}

// move hands an attempt that waits here, because of an older layout, to its own lane.
func (l *lane) move(a *attempt) {
	if o, in := l.laneOf(a.user).push(a); !in {
		a.answer(verdict{outcome: o})
	}
}

// borrowShare is the part of the deadline for publishing a batch in which it may
// borrow.
const borrowShare = 4

// borrowTurns bounds how often a batch borrows: each turn grants something, or
// finds that another lane was faster.
const borrowTurns = 8

// borrow gets units of the item's other shards for the attempts that found none at
// theirs, and decides on these again. The rest is answered "sold out" or "all held"
// only if no shard has a unit; decision.Parts is set then.
func (w *laneWorker) borrow(ctx context.Context, item *catalogue.Item) {
	d := &w.decision
	if d.Gate != inventory.Open || d.Shards < 2 || item.Unlimited {
		return
	}
	// Those of the batch who have units wait for their answers meanwhile, which have to be published in time.
	ctx, cancel := context.WithTimeout(ctx, min(reserveTimeout, w.lane.line.cfg.PublishDeadline/borrowShare))
	defer cancel()
	stock := item.Stock().Counter(w.lane.shard)
	for range borrowTurns {
		short, wanted := w.short(d)
		if len(short) == 0 {
			return
		}
		whole, err := w.lane.line.stock.Borrow(ctx, stock, d.Shards, wanted)
		if err != nil {
			w.warn("borrowing units of other shards failed", err)
			break
		}
		if d.Epoch != whole.Epoch {
			break // a Load has intervened
		}
		if whole.Remaining == 0 {
			verdict := inventory.AllHeld
			if whole.Committed >= whole.Total {
				verdict = inventory.SoldOut
			}
			for _, i := range short {
				d.Results[i].Verdict = verdict
			}
			d.Remaining, d.Total, d.Parts = 0, whole.Total, whole.States
			return
		}
		if !w.decideAgain(ctx, item, short) {
			break
		}
		if d.Remaining > 0 && whole.Remaining == whole.States[w.lane.shard].Remaining {
			return // all that is left is here, and too little for some
		}
	}
	short, _ := w.short(d)
	for _, i := range short {
		d.Results[i].Verdict = inventory.Elsewhere
	}
}

// short are the indexes of the attempts for which the shard had too few units,
// and how many these ask for.
func (w *laneWorker) short(d *inventory.Decision) (short []int, wanted int64) {
	for i := range d.Results {
		switch d.Results[i].Verdict {
		case inventory.NotEnough, inventory.SoldOut, inventory.AllHeld:
			short, wanted = append(short, i), wanted+int64(w.attempts[i].Quantity)
		default:
		}
	}
	return short, wanted
}

// decideAgain asks Redis about some attempts again and puts the answers into the
// decision; false if there are none.
func (w *laneWorker) decideAgain(ctx context.Context, item *catalogue.Item, some []int) bool {
	attempts := make([]inventory.Attempt, len(some))
	for k, i := range some {
		attempts[k] = w.attempts[i]
	}
	var again inventory.Decision
	d := &w.decision
	if err := w.lane.line.stock.Reserve(ctx, item.Stock().Counter(w.lane.shard), d.Epoch, attempts, &again); err != nil {
		w.warn("reservation in redis failed", err)
		if !redisx.Refused(err) {
			w.suspect(item)
			for _, i := range slices.Backward(some) {
				w.asked[i].answer(verdict{outcome: outUnknown})
				w.asked, w.attempts, d.Results = slices.Delete(w.asked, i, i+1), slices.Delete(w.attempts, i, i+1), slices.Delete(d.Results, i, i+1)
			}
		}
		return false
	}
	if again.Gate != inventory.Open {
		return false
	}
	for k, i := range some {
		d.Results[i] = again.Results[k]
	}
	results := d.Results
	*d = again
	d.Results = results
	w.lane.learn(d, item.Unlimited, time.Now())
	return true
}
