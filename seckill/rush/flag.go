package rush

import (
	"context"
	"encoding/binary"
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
//
// Redis gives a unit a moment before the answer is here and its user in the
// filter. Nobody is refused in that moment who was asked about: whom a batch asks
// about had no flag in the way or is in the filter, and until the answers are
// remembered nobody raises a flag or replaces the filter, because all that
// belongs to the one worker that decides.
//
// What another instance grants after a return is seen here with the broadcast of
// that return, or when the flag's life ends. Who sends one path to two instances
// within that time can be queued by one and refused by the other; the number
// tells the truth. Closing that would take a question to Redis for each refusal.
type soldOut struct {
	item  int64
	cfg   Config
	cache *freecache.Cache // shared by all items

	// seen is the newest epoch and count of returns that this instance knows of.
	seen atomic.Pointer[sight]
	// holders has everybody who was ever seen holding a unit; it is replaced only
	// by one that has at least those who hold now. nil until the first holder.
	holders atomic.Pointer[holderFilter]

	// The rest belongs to the worker that holds lane.deciding, as do remember,
	// cover and raise.
	lastRead time.Time // of the holders
	covered  coverage
	size     int // users holders was made for
	added    int // users that were new to holders, by its own account
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

func newSoldOut(item int64, cfg Config, cache *freecache.Cache) *soldOut {
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

// remember adds those who were granted units here, before anybody but their
// batch's worker can decide or raise the flag. A grant that is only possible,
// because Redis did not answer, has epoch and seq 0.
func (f *soldOut) remember(epoch, total int64, grants []grant) {
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
		f.covered.add(epoch, g.seq)
	}
}

// capacityFor is how many users a filter for an item of that many units is made
// for: twice the units, because returned units find new holders.
func (f *soldOut) capacityFor(total int64) int {
	return int(min(max(2*total, minFilterHolders), int64(f.cfg.MaxFilterHolders)))
}

// crowded reports whether the filter has taken far more users than it was made
// for, so that it claims too many strangers.
func (f *soldOut) crowded() bool { return f.added > 2*f.size }

// raise puts the flag up after a decision that left nothing. It reports whether
// the filter has every holder of the decision's moment; if not, the flag stays
// down and Redis goes on answering.
func (f *soldOut) raise(d *inventory.Decision, as outcome) bool {
	if d.Remaining > 0 {
		return true
	}
	if f.crowded() || !f.covered.reaches(d.Epoch, d.Seq) {
		return false
	}
	f.see(d.Epoch, d.Rel)
	if (sight{d.Epoch, d.Rel}).before(*f.seen.Load()) {
		return true // units came back in the meantime; the flag would not count
	}
	var v [flagBytes]byte
	v[0] = byte(as)
	binary.LittleEndian.PutUint64(v[1:], uint64(d.Rel)) //nolint:gosec // the bits, read back the same way
	key := f.key(d.Epoch)
	// The only errors are about sizes, which are fixed.
	_ = f.cache.Set(key[:], v[:], wholeSeconds(f.cfg.FlagLife))
	return true
}

// users reads an item's holders; inventory.Service.Users does it.
type users func(ctx context.Context, epoch int64, limit int) ([]int64, error)

// cover reads the holders of the decision's moment into the filter, so that the
// flag can be raised; not more often than the setting says, and to no effect
// where they are too many.
func (f *soldOut) cover(ctx context.Context, d *inventory.Decision, read users, now time.Time) error {
	if now.Sub(f.lastRead) < f.cfg.FilterEvery {
		return nil
	}
	f.lastRead = now
	holders, err := read(ctx, d.Epoch, f.cfg.MaxFilterHolders+1)
	if err != nil || len(holders) > f.cfg.MaxFilterHolders {
		return err
	}
	target, size := f.holders.Load(), f.capacityFor(d.Total)
	if target == nil || f.crowded() || size > f.size {
		target = newHolderFilter(size)
		f.size, f.added = size, 0
	}
	for _, u := range holders {
		if target.add(u) {
			f.added++
		}
	}
	f.holders.Store(target)
	f.covered = coverage{valid: true, epoch: d.Epoch, base: d.Seq, last: d.Seq}
	return nil
}
