package rush

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"stampede/inventory"
	"stampede/platform/base/bloom"
	"stampede/platform/base/ids"
)

// soldOut is an item's sold-out flag on this instance, with the filter of its
// holders and of the numbers that have just ended: while the flag is up, an
// attempt is refused from memory unless its user or its number is in the filter.
//
// The flag itself expires after FlagLife. It carries the count of returns (rel)
// under which it was decided, and is valid only until a newer count is seen. So
// clearing it means seeing a newer count, and a late decision cannot raise a flag
// that a return has cleared.
//
// Redis grants a unit a moment before the answer arrives and the user enters the
// filter. No user of the batch is refused in that moment: a user who reaches a
// batch met no flag or is in the filter, and until the answers are remembered the
// flag is not raised and the filter not replaced, because only the worker that
// decides does either; see shards.still for the lanes of several shards.
//
// Grants that another instance makes after a return are seen here with the
// broadcast of that return, or when the flag expires. A user who sends one path
// to two instances within that time can be queued by one and refused by the
// other; querying the number gives the correct result. Closing this gap would
// take a call to Redis for each refusal.
type soldOut struct {
	cfg Config
	up  atomic.Pointer[raised] // nil until the first decision that left no units

	// seen is the newest epoch and count of returns that this instance knows.
	seen atomic.Pointer[sight]
	// holders has every user who was ever seen holding a unit, and the ended
	// numbers, see numberKey; it is replaced only by a filter that has at least the
	// present ones. nil until the first holder.
	holders atomic.Pointer[bloom.Filter]

	mu       sync.Mutex // guards the rest
	lastRead time.Time  // of the holders
	reading  bool       // them, without mu
	late     []granted  // meanwhile, by other shards' lanes
	covered  []coverage // by shard
	size     int        // users holders was made for
	added    int        // users that were new to holders, by its own account
}

// raised is a flag that was put up. It is immutable.
type raised struct {
	epoch, rel int64
	as         outcome
	at         time.Time
}

// sight is a point in the history of an item's stock: the returns to all its
// shards, and to each.
type sight struct {
	epoch, rel int64
	parts      []int64
}

func (s *sight) before(o *sight) bool {
	return s.epoch < o.epoch || s.epoch == o.epoch && s.rel < o.rel
}

// coverage tracks whether the filter has every holder up to a grant: those read
// from Redis, and each grant since then if all of them were made here. With one
// instance the holders are therefore read once per Load; with several, whenever
// another instance has granted.
type coverage struct {
	valid       bool
	epoch, base int64 // the holders read include the grants up to base of this epoch
	count, last int64 // grants above base that were made here, and the highest
}

func (c *coverage) add(epoch, seq int64) {
	if c.valid && epoch == c.epoch && seq > c.base {
		c.count++
		c.last = max(c.last, seq)
	}
}

// reaches reports whether every grant up to seq is covered. Sequence numbers
// have no gaps and no two grants share one, so if the number of grants made
// here equals the distance from base to last, all of them are covered.
func (c *coverage) reaches(epoch, seq int64) bool {
	return c.valid && epoch == c.epoch && c.count == c.last-c.base && seq <= c.last
}

func newSoldOut(cfg Config) *soldOut {
	f := &soldOut{cfg: cfg}
	f.seen.Store(&sight{})
	return f
}

// refuses reports whether the flag is up for a user's attempt, and with which
// outcome. It allocates nothing.
func (f *soldOut) refuses(user int64, no ids.ID) (outcome, bool) {
	up, seen := f.up.Load(), f.seen.Load()
	if up == nil || up.epoch != seen.epoch || up.rel < seen.rel || time.Since(up.at) >= f.cfg.FlagLife || f.mayHold(user, no) {
		return outNone, false
	}
	return up.as, true
}

// mayHold reports whether a user may hold a unit or a number may have held one,
// as far as this instance knows; while the flag is up that is enough to refuse
// all other attempts.
func (f *soldOut) mayHold(user int64, no ids.ID) bool {
	h := f.holders.Load()
	return h != nil && (h.Has(user) || h.Has(numberKey(no)))
}

// numberKey is a number's entry in the filter of holders: its random part. The
// user of a number that ended need not hold anything, and a repetition of its
// path has to get the end of its number and not the refusal of a stranger.
func numberKey(no ids.ID) int64 {
	return int64(binary.LittleEndian.Uint64(no[8:])) //nolint:gosec // bits to be hashed
}

// seeShard records an epoch and a shard's count of returns. A newer one than
// before ends the flag.
func (f *soldOut) seeShard(shard int16, epoch, rel int64) {
	for {
		cur := f.seen.Load()
		next := &sight{epoch: epoch}
		switch {
		case epoch < cur.epoch || epoch == cur.epoch && int(shard) < len(cur.parts) && rel <= cur.parts[shard]:
			return
		case epoch == cur.epoch:
			next.parts = slices.Clone(cur.parts)
		}
		for int(shard) >= len(next.parts) {
			next.parts = append(next.parts, 0)
		}
		next.parts[shard] = rel
		for _, part := range next.parts {
			next.rel += part
		}
		if f.seen.CompareAndSwap(cur, next) {
			return
		}
	}
}

// grant is a unit given to a user by this instance.
type grant struct {
	user, seq int64
	shard     int16
}

// granted is a grant under an epoch.
type granted struct {
	epoch int64
	grant
}

// remember adds the users who were granted units here, before any other worker
// can decide or raise the flag. A merely possible grant, because Redis did not
// answer, has epoch and seq 0.
func (f *soldOut) remember(epoch, total int64, grants []grant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.holders.Load()
	if h == nil {
		f.size = f.capacityFor(total)
		h = bloom.New(f.size)
		f.holders.Store(h)
	}
	for _, g := range grants {
		f.add(h, granted{epoch, g})
		if f.reading {
			f.late = append(f.late, granted{epoch, g})
		}
	}
}

func (f *soldOut) add(to *bloom.Filter, g granted) {
	if to.Add(g.user) {
		f.added++
	}
	f.part(g.shard).add(g.epoch, g.seq)
}

// part is what is covered of a shard.
func (f *soldOut) part(shard int16) *coverage {
	for int(shard) >= len(f.covered) {
		f.covered = append(f.covered, coverage{})
	}
	return &f.covered[shard]
}

// minFilterHolders keeps the smallest filter from filling up with an item whose
// few units change hands often.
const minFilterHolders = 1024

// capacityFor is the number of users to size a filter for, given an item's
// units: twice the units, because returned units find new holders.
func (f *soldOut) capacityFor(total int64) int {
	return int(min(max(2*total, minFilterHolders), int64(f.cfg.MaxFilterHolders)))
}

// crowded reports whether the filter has far more users than it was sized for,
// so that it claims too many strangers.
func (f *soldOut) crowded() bool { return f.added > 2*f.size }

// raise puts the flag up after a decision that left no units. It reports
// whether the filter has every holder at the moment of the decision; if not,
// the flag stays down and Redis continues to answer.
func (f *soldOut) raise(d *inventory.Decision, as outcome) bool {
	if d.Remaining > 0 {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	parts, rel := partsOf(d), int64(0)
	if f.crowded() {
		return false
	}
	for shard, part := range parts {
		if !f.part(int16(shard)).reaches(d.Epoch, part.Seq) { //nolint:gosec // below inventory.MostShards
			return false
		}
	}
	for shard, part := range parts {
		f.seeShard(int16(shard), d.Epoch, part.Rel) //nolint:gosec // as above
		rel += part.Rel
	}
	if (&sight{epoch: d.Epoch, rel: rel}).before(f.seen.Load()) {
		return true // units came back in the meantime; the flag would not be valid
	}
	f.up.Store(&raised{epoch: d.Epoch, rel: rel, as: as, at: time.Now()})
	return true
}

// users reads an item's holders and the keys of its ended numbers.
type users func(ctx context.Context, epoch int64, limit int) ([]int64, error)

// cover reads the holders at the moment of the decision into the filter, so
// that the flag can be raised; at most as often as the setting allows, and
// without effect if there are too many holders. Other shards' lanes go on meanwhile.
func (f *soldOut) cover(ctx context.Context, d *inventory.Decision, read users, now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reading || now.Sub(f.lastRead) < f.cfg.FilterEvery {
		return nil
	}
	f.lastRead, f.reading = now, true
	f.mu.Unlock()
	holders, err := read(ctx, d.Epoch, f.cfg.MaxFilterHolders+1)
	f.mu.Lock()
	late := f.late
	f.reading, f.late = false, nil
	if err != nil || len(holders) > f.cfg.MaxFilterHolders {
		return err
	}
	target, size := f.holders.Load(), f.capacityFor(max(d.Total, int64(len(holders))))
	if target == nil || f.crowded() || size > f.size {
		target = bloom.New(size)
		f.size, f.added = size, 0
	}
	for _, u := range holders {
		if target.Add(u) {
			f.added++
		}
	}
	f.holders.Store(target)
	f.covered = f.covered[:0]
	for _, part := range partsOf(d) {
		f.covered = append(f.covered, coverage{valid: true, epoch: d.Epoch, base: part.Seq, last: part.Seq})
	}
	for _, g := range late {
		f.add(target, g)
	}
	return nil
}

// partsOf are the shards of an item that has none left.
func partsOf(d *inventory.Decision) []inventory.State {
	if d.Parts != nil {
		return d.Parts
	}
	return []inventory.State{{Seq: d.Seq, Rel: d.Rel}}
}
