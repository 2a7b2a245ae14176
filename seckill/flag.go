package seckill

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coocood/freecache"

	"stampede/inventory"
)

// soldOut is an item's sold-out flag on this instance, and the filter of its
// holders that stands beside it: while the flag is up, whoever is not in the
// filter is refused from memory.
//
// The flag itself lives in a freecache, which ends it after its life. It carries
// the count of returns (rel) it was decided under and counts only while no newer
// count was seen, so clearing it is nothing but seeing a newer count, and a
// decision that arrives late cannot raise a flag that a return has cleared.
type soldOut struct {
	item  int64
	cfg   RushConfig
	cache *freecache.Cache // shared by all items

	// seen is the newest epoch and count of returns that this instance knows of.
	seen atomic.Pointer[sight]
	// holders has everybody who was ever seen holding a unit; it is replaced only
	// by one that has at least those who hold now. nil until the first holder.
	holders atomic.Pointer[holderFilter]

	// mu guards the rest and orders it before holders. It is never held during
	// I/O and never taken on the way of a refusal.
	mu      sync.Mutex
	next    *holderFilter // being filled by a reading; takes part in every add
	reading bool
	lastRun time.Time
	cover   coverage
	size    int // users holders was made for
	added   int // users that were new to holders, by its own account
}

// sight is a place in the history of an item's stock.
type sight struct{ epoch, rel int64 }

func (s sight) before(o sight) bool {
	return s.epoch < o.epoch || s.epoch == o.epoch && s.rel < o.rel
}

// coverage knows whether the filter has every holder up to a grant: those read
// from Redis, and each grant since then if all of them were made here. With one
// instance the holders are therefore read once per Load; with several, whenever
// another one has granted.
type coverage struct {
	valid       bool
	epoch, base int64 // the reading has the grants up to base of this epoch
	count, last int64 // grants above base that were made here, and the highest
}

func (c *coverage) add(epoch, seq int64) {
	if c.valid && epoch == c.epoch && seq > c.base {
		c.count++
		c.last = max(c.last, seq)
	}
}

// reaches reports whether every grant up to seq is covered. Sequence numbers
// have no gaps and no two grants share one, so as many grants as lie between
// base and last means all of them.
func (c *coverage) reaches(epoch, seq int64) bool {
	return c.valid && epoch == c.epoch && c.count == c.last-c.base && seq <= c.last
}

func newSoldOut(item int64, cfg RushConfig, cache *freecache.Cache) *soldOut {
	f := &soldOut{item: item, cfg: cfg, cache: cache}
	f.seen.Store(&sight{})
	return f
}

type flagKey [16]byte

func (f *soldOut) key(epoch int64) (k flagKey) {
	binary.LittleEndian.PutUint64(k[:8], uint64(f.item)) //nolint:gosec // bits of a key
	binary.LittleEndian.PutUint64(k[8:], uint64(epoch))  //nolint:gosec // bits of a key
	return k
}

// refuses reports whether the flag is up for a user, and as what. It allocates
// nothing.
func (f *soldOut) refuses(user int64) (outcome, bool) {
	seen := f.seen.Load()
	key := f.key(seen.epoch)
	var buf [flagBytes]byte
	v, err := f.cache.GetWithBuf(key[:], buf[:])
	if err != nil || len(v) != flagBytes {
		return outNone, false
	}
	if int64(binary.LittleEndian.Uint64(v[1:])) < seen.rel { //nolint:gosec // the bits that raise wrote
		return outNone, false
	}
	if f.mayHold(user) {
		return outNone, false
	}
	return outcome(v[0]), true
}

// flagBytes is the outcome and the count of returns.
const flagBytes = 1 + 8

// mayHold reports whether a user may hold a unit, as far as this instance
// knows; while the flag is up that is far enough to refuse everybody else.
func (f *soldOut) mayHold(user int64) bool {
	h := f.holders.Load()
	return h != nil && h.has(user)
}

// see takes note of an epoch and its count of returns. A newer one than before
// ends the flag.
func (f *soldOut) see(epoch, rel int64) {
	for {
		cur := f.seen.Load()
		if !cur.before(sight{epoch, rel}) {
			return
		}
		if f.seen.CompareAndSwap(cur, &sight{epoch, rel}) {
			return
		}
	}
}

// grant is a unit given to a user by this instance.
type grant struct{ user, seq int64 }

// remember adds those who were granted units here. It must run before a flag is
// raised from the same or a later decision.
func (f *soldOut) remember(epoch int64, total int64, grants []grant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.holders.Load()
	if h == nil {
		f.size = f.capacityFor(total)
		h = newHolderFilter(f.size)
		f.holders.Store(h)
	}
	for _, g := range grants {
		if h.add(g.user) {
			f.added++
		}
		if f.next != nil {
			f.next.add(g.user)
		}
		f.cover.add(epoch, g.seq)
	}
}

// capacityFor is how many users a filter for an item of that many units is made
// for: twice the units, because returned units find new holders.
func (f *soldOut) capacityFor(total int64) int {
	return int(min(max(2*total, minFilterHolders), int64(f.cfg.MaxFilterHolders)))
}

// users reads an item's holders; inventory.Service.Users does it.
type users func(ctx context.Context, epoch int64, limit int) ([]int64, error)

// raise puts the flag up after a decision that left nothing, once the filter
// has every holder. It may read the holders from Redis, and does nothing when
// that is not possible now: then Redis goes on answering.
func (f *soldOut) raise(ctx context.Context, d *inventory.Decision, as outcome, read users, now time.Time) error {
	if d.Remaining > 0 {
		return nil
	}
	covered, err := f.coverUpTo(ctx, d, read, now)
	if err != nil || !covered {
		return err
	}
	f.see(d.Epoch, d.Rel)
	if (sight{d.Epoch, d.Rel}).before(*f.seen.Load()) {
		return nil // units came back in the meantime; the flag would not count
	}
	var v [flagBytes]byte
	v[0] = byte(as)
	binary.LittleEndian.PutUint64(v[1:], uint64(d.Rel)) //nolint:gosec // the bits, read back the same way
	key := f.key(d.Epoch)
	return f.cache.Set(key[:], v[:], wholeSeconds(f.cfg.FlagLife))
}

// coverUpTo makes sure that the filter has every holder of the decision's
// moment, by reading them if need be. One reading at a time, and not more often
// than the setting says.
func (f *soldOut) coverUpTo(ctx context.Context, d *inventory.Decision, read users, now time.Time) (bool, error) {
	f.mu.Lock()
	// A filter that has taken far more users than it was made for claims too many
	// strangers; read the present holders into a new one.
	crowded := f.added > 2*f.size
	// While a reading runs, the coverage it will give is only being prepared.
	if !f.reading && !crowded && f.cover.reaches(d.Epoch, d.Seq) {
		f.mu.Unlock()
		return true, nil
	}
	if f.reading || now.Sub(f.lastRun) < f.cfg.FilterEvery {
		f.mu.Unlock()
		return false, nil
	}
	f.reading, f.lastRun = true, now
	target, size := f.holders.Load(), f.capacityFor(d.Total)
	if target == nil || crowded || size > f.size {
		f.next = newHolderFilter(size)
		target = f.next
	}
	f.cover = coverage{valid: true, epoch: d.Epoch, base: d.Seq, last: d.Seq}
	f.mu.Unlock()

	holders, err := read(ctx, d.Epoch, f.cfg.MaxFilterHolders+1)
	complete := err == nil && len(holders) <= f.cfg.MaxFilterHolders
	fresh := 0
	if complete {
		for _, u := range holders {
			if target.add(u) {
				fresh++
			}
		}
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	if complete && f.next != nil {
		f.holders.Store(f.next)
		f.size, f.added = size, 0
	}
	f.added += fresh
	f.next, f.reading = nil, false
	if !complete {
		f.cover.valid = false
		return false, err
	}
	return f.cover.reaches(d.Epoch, d.Seq), nil
}
