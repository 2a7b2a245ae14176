package load

import (
	"maps"
	"strconv"

	"stampede/inventory/decide"
	"stampede/inventory/lua"
	"stampede/inventory/stock"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
)

// specItem is one item in Redis as the headers of the scripts describe it, in plain Go: what the keys mean, not how a
// script accesses them.
type specItem struct {
	item stock.Item
	// loaded is false without a state. The fields below it are then meaningless.
	loaded bool
	// here is false once Redis was restarted: the state names another run.
	here                                                                bool
	epoch, rev, total, remaining, committed, seq, persisted, rel, limit int64
	fenced                                                              int64 // the coming epoch, 0 if open
	window                                                              window
	paused, unlimited, rebuy                                            bool
	users                                                               map[int64]stock.Mark
	holds                                                               map[ids.ID]specHold
	gone                                                                map[ids.ID]fate
	retaken, shards                                                     int64
	// noUsers and noHolds say that the key was lost: an empty one is different.
	noUsers, noHolds bool
}

// fate is what a tombstone says of its number.
type fate uint8

const (
	remembered  fate = iota
	forgettable      // at the next release
	takenUp          // by retake.lua, after its end
)

type specHold struct {
	user, seq        int64
	quantity, within int32
}

// specBuyer is what a user has of an activity with one item per user.
type specBuyer struct {
	no     ids.ID
	item   int64
	closed bool
}

// spec is a whole Redis: items, some of which share their activity's buyers.
type spec struct {
	items    []*specItem
	buyers   map[int64]specBuyer // of the one activity whose items share them
	noBuyers bool                // the key was lost, or nothing wrote it yet
}

// forget resets the item as if it had never been in Redis.
func (it *specItem) forget() { *it = specItem{item: it.item} }

// held is what blocks another grant to a user: the item's own mark, or what the user has of another item of the
// activity.
func (s *spec) held(it *specItem, user int64) (stock.Mark, bool) {
	if m, ok := it.users[user]; ok {
		return m, true
	}
	if it.item.PerActivity {
		b, ok := s.buyers[user]
		return stock.Mark{No: b.no, Closed: b.closed}, ok
	}
	return stock.Mark{}, false
}

// reserve is reserve.lua.
func (s *spec) reserve(it *specItem, epoch int64, attempts []decide.Attempt) decide.Decision {
	if !it.loaded {
		return decide.Decision{Gate: decide.Fenced}
	}
	var d decide.Decision
	switch {
	case epoch != it.epoch, it.fenced != 0, !it.here:
		d.Gate = decide.Fenced
	case it.window == before:
		d.Gate = decide.NotStarted
	case it.window == after:
		d.Gate = decide.Ended
	case it.paused:
		d.Gate = decide.Paused
	case it.noUsers, it.noHolds, it.item.PerActivity && s.noBuyers:
		d.Gate = decide.Fenced
		it.fenced = it.epoch + 1
	default:
		for _, a := range attempts {
			d.Results = append(d.Results, s.decide(it, a))
		}
	}
	d.Epoch, d.Remaining, d.Committed, d.Total = it.epoch, it.remaining, it.committed, it.total
	d.Seq, d.Persisted, d.Rel, d.Shards = it.seq, it.persisted, it.rel, int16(it.shards)
	return d
}

// decide judges one attempt after those before it in the batch took effect: a batch equals its attempts one by one.
func (s *spec) decide(it *specItem, a decide.Attempt) decide.Result {
	held, has := s.held(it, a.User)
	_, ended := it.gone[a.No]
	units := int64(a.Quantity)
	switch {
	case has && held.No == a.No && !held.Closed:
		return decide.Result{Verdict: decide.Repeated, Seq: it.holds[a.No].seq}
	case has && held.No == a.No, ended:
		return decide.Result{Verdict: decide.Finished}
	case has:
		r := decide.Result{Verdict: decide.AlreadyBought, Other: held.No}
		if own := it.users[a.User]; own.No == held.No {
			hold := it.holds[held.No]
			r.Seq, r.Quantity, r.PayWithin = hold.seq, hold.quantity, hold.within
		}
		return r
	case units > it.limit:
		return decide.Result{Verdict: decide.OverLimit}
	case it.unlimited || units <= it.remaining:
		it.remaining -= units
		it.seq++
		it.users[a.User] = stock.Mark{No: a.No, Quantity: a.Quantity}
		it.holds[a.No] = specHold{user: a.User, seq: it.seq, quantity: a.Quantity, within: a.PayWithin}
		if it.item.PerActivity {
			s.buyers[a.User] = specBuyer{no: a.No, item: it.item.ID}
		}
		return decide.Result{Verdict: decide.Granted, Seq: it.seq}
	case it.remaining > 0:
		return decide.Result{Verdict: decide.NotEnough}
	case it.committed >= it.total:
		return decide.Result{Verdict: decide.SoldOut}
	default:
		return decide.Result{Verdict: decide.AllHeld}
	}
}

// persist is persist.lua: how many holds it closed.
func (it *specItem) persist(epoch int64, nos []ids.ID) (closed int64) {
	if !it.loaded || epoch != it.epoch {
		return 0
	}
	for _, no := range nos {
		if _, open := it.holds[no]; open {
			delete(it.holds, no)
			it.persisted++
			closed++
		}
	}
	return closed
}

// turnedAway is the beginning of release.lua and commit.lua; on false they continue.
func (it *specItem) turnedAway(epoch int64) (code int64, away bool) {
	switch {
	case !it.loaded:
		return lua.NoState, true
	case it.fenced != 0:
		return lua.Fenced, true
	case epoch != it.epoch:
		return lua.OtherEpoch, true
	default:
		return lua.Done, false
	}
}

// release is release.lua.
func (s *spec) release(it *specItem, epoch int64, numbers []decide.Attempt, status string, will fate) []int64 {
	if code, away := it.turnedAway(epoch); away {
		return []int64{code, it.epoch, it.rel, 0}
	}
	for no, old := range it.gone {
		if old == forgettable {
			delete(it.gone, no)
		}
	}
	var given int64
	stays := status != orderevent.StatusRefused && !it.rebuy
	for _, a := range numbers {
		if again := it.gone[a.No] == takenUp; again && status == orderevent.StatusClosed {
			continue
		} else if !again {
			it.gone[a.No] = will
		}
		if _, open := it.holds[a.No]; open {
			delete(it.holds, a.No)
			it.persisted++
		}
		if b, ok := s.buyers[a.User]; ok && it.item.PerActivity && b.no == a.No && !b.closed {
			delete(s.buyers, a.User)
			if stays {
				b.closed = true
				s.buyers[a.User] = b
			}
		}
		m, ok := it.users[a.User]
		if !ok || m.No != a.No || m.Closed {
			continue
		}
		given++
		it.remaining += int64(m.Quantity)
		it.rel++
		if m.Paid {
			it.committed -= int64(m.Quantity)
		}
		delete(it.users, a.User)
		if stays {
			it.users[a.User] = stock.Mark{No: a.No, Closed: true}
		}
	}
	return []int64{lua.Done, it.epoch, it.rel, given}
}

// retake is retake.lua; the indexes of those that wait follow the figures.
func (s *spec) retake(it *specItem, epoch int64, numbers []decide.Attempt) []int64 {
	if code, away := it.turnedAway(epoch); away {
		return []int64{code, it.epoch, it.rel, 0, 0}
	}
	for _, a := range numbers {
		if m := it.users[a.User]; m.No == a.No && m.Paid && it.gone[a.No] != takenUp {
			it.fenced = it.epoch + 1
			return []int64{lua.Fenced, it.epoch, it.rel, 0, 0}
		}
	}
	var taken, returned int64
	var waiting []int64
	busy := map[int64]bool{}
	for i, a := range numbers {
		if it.gone[a.No] == takenUp {
			continue
		}
		m, ok := it.users[a.User]
		b, bought := s.buyers[a.User]
		inWay := ok && !m.Closed && m.No != a.No || it.item.PerActivity && bought && !b.closed && b.no != a.No
		if inWay || busy[a.User] {
			waiting = append(waiting, int64(i+1))
			continue
		}
		busy[a.User] = true
		taken++
		if ok && m.No == a.No && !m.Closed {
			returned += int64(a.Quantity)
			it.remaining += int64(a.Quantity)
			it.rel++
		}
		it.users[a.User] = stock.Mark{No: a.No, Quantity: a.Quantity, Paid: true}
		if it.item.PerActivity {
			s.buyers[a.User] = specBuyer{no: a.No, item: it.item.ID}
		}
		it.gone[a.No] = takenUp
		if _, open := it.holds[a.No]; open {
			delete(it.holds, a.No)
			it.persisted++
		}
		it.total += int64(a.Quantity)
		it.retaken += int64(a.Quantity)
		it.committed += int64(a.Quantity)
	}
	return append([]int64{lua.Done, it.epoch, it.rel, taken, returned}, waiting...)
}

// commit is commit.lua.
func (it *specItem) commit(epoch int64, numbers []decide.Attempt) []int64 {
	if code, away := it.turnedAway(epoch); away {
		return []int64{code, it.epoch, 0}
	}
	var done int64
	for _, a := range numbers {
		if m, ok := it.users[a.User]; ok && m.No == a.No && !m.Paid && !m.Closed {
			m.Paid = true
			it.users[a.User] = m
			it.committed += int64(m.Quantity)
			done++
		}
	}
	return []int64{lua.Done, it.epoch, done}
}

// hold is hold.lua: code, epoch, persisted, mark and sequence.
func (it *specItem) hold(epoch, user int64) (figures [3]int64, text string, seq int64) {
	if !it.loaded {
		return [3]int64{lua.NoState, 0, 0}, "", 0
	}
	m, ok := it.users[user]
	hold, open := it.holds[m.No]
	code, text := int64(2), ""
	switch {
	case epoch != it.epoch:
		code = lua.OtherEpoch
	case ok && !m.Closed && !open && !it.noHolds:
		code, text = 0, m.String()
	case ok && !m.Closed && open && it.here:
		code, text, seq = 0, m.String(), hold.seq
	case ok && !m.Closed:
		code, text = 4, m.String() // unknown now
	case it.fenced != 0, !it.here, it.noUsers:
		code = 4
	}
	return [3]int64{code, it.epoch, it.persisted}, text, seq
}

// state is the state hash.
func (it *specItem) state(run string, now int64) map[string]string {
	opens, closes := it.window.bounds(now)
	if !it.here {
		run = otherRun
	}
	fields := map[string]string{"run_id": run}
	for name, v := range map[string]int64{
		"epoch": it.epoch, "rev": it.rev, "total": it.total, "remaining": it.remaining, "committed": it.committed, "seq": it.seq,
		"persisted": it.persisted, "rel": it.rel, "limit": it.limit, "fenced": it.fenced, "opens_ms": opens, "closes_ms": closes,
		"paused": int64(lua.Flag(it.paused)), "unlimited": int64(lua.Flag(it.unlimited)), "rebuy": int64(lua.Flag(it.rebuy)), "retaken": it.retaken, "shards": it.shards,
	} {
		fields[name] = strconv.FormatInt(v, 10)
	}
	return fields
}

// specChange has the arguments of change.lua.
type specChange struct {
	rev, total, limit int64
	window            window
	paused, rebuy     bool
}

// change is change.lua.
func (it *specItem) change(c specChange) []int64 {
	if !it.loaded {
		return []int64{1, 0, 0, 0}
	}
	if c.rev <= it.rev {
		return []int64{2, it.epoch, it.rel, 0}
	}
	added := c.total + it.retaken - it.total
	it.remaining += added
	if added > 0 {
		it.rel++
	}
	it.rev, it.total, it.limit, it.window, it.paused, it.rebuy = c.rev, c.total+it.retaken, c.limit, c.window, c.paused, c.rebuy
	return []int64{0, it.epoch, it.rel, added}
}

// withdraw is withdraw.lua: code and units taken in all.
func (it *specItem) withdraw(rev, plan, units int64) []int64 {
	switch {
	case !it.loaded:
		return []int64{1, 0}
	case it.fenced != 0, !it.here:
		return []int64{2, 0}
	case rev != it.rev:
		return []int64{3, 0}
	}
	taken := plan + it.retaken - it.total
	more := min(units-taken, max(it.remaining, 0))
	it.total -= more
	it.remaining -= more
	if more < 0 {
		it.rel++
	}
	return []int64{0, taken + more}
}

// fence is fence.lua: code, epoch, sequence, and whether it is the loaded Redis.
func (it *specItem) fence(epoch int64) []int64 {
	if !it.loaded {
		return []int64{fenceNoState, 0, 0, 0}
	}
	if it.epoch >= epoch || it.fenced > epoch {
		return []int64{fenceRefused, max(it.epoch, it.fenced), it.seq, 0}
	}
	it.fenced = epoch
	return []int64{fenceDone, it.epoch, it.seq, int64(lua.Flag(it.here))}
}

// specLoad has the arguments of patch.lua and load.lua. whole is false if Redis has lost keys since they were
// written.
type specLoad struct {
	epoch, replaced, remaining, committed, retaken, shards int64
	with                                                   specChange
	unlimited, thisRun, whole                              bool
	users                                                  map[int64]stock.Mark
	gone                                                   map[ids.ID]fate
}

// patch is all of a Load's calls of patch.lua: the code. With a state the keys are changed in place.
func (it *specItem) patch(l specLoad) int64 {
	switch {
	case l.replaced == 0: // nothing reads the keys that are written
		return loadDone
	case it.loaded && (it.epoch >= l.epoch || it.fenced > l.epoch):
		return loadRefused
	case it.epoch != l.replaced, it.fenced != l.epoch:
		return loadLost
	}
	it.users, it.gone, it.noUsers = maps.Clone(l.users), maps.Clone(l.gone), false
	return loadDone
}

// load is load.lua.
func (it *specItem) load(l specLoad) []int64 {
	switch {
	case it.loaded && (it.epoch > l.epoch || it.fenced > l.epoch):
		return []int64{loadRefused, max(it.epoch, it.fenced), it.rel}
	case !l.thisRun:
		return []int64{loadLost, it.epoch, it.rel}
	case it.loaded && it.epoch == l.epoch:
		return []int64{loadDone, it.epoch, it.rel}
	case !l.whole, it.epoch != l.replaced, it.loaded && it.fenced != l.epoch:
		return []int64{loadLost, it.epoch, it.rel}
	}
	rel := int64(0)
	if it.loaded {
		rel = it.rel + 1
	}
	*it = specItem{
		item: it.item, loaded: true, here: true, epoch: l.epoch, rev: l.with.rev, total: l.with.total, remaining: l.remaining,
		committed: l.committed, rel: rel, limit: l.with.limit, window: l.with.window, paused: l.with.paused, unlimited: l.unlimited,
		rebuy: l.with.rebuy, retaken: l.retaken, shards: l.shards, users: l.users, gone: l.gone, holds: map[ids.ID]specHold{},
	}
	return []int64{loadDone, it.epoch, it.rel}
}

// specSeen has the figures that settle.lua compares: those of the state that the caller read.
type specSeen struct{ remaining, committed, rel, seq int64 }

// settle is settle.lua. Without seen the caller considers the state not deciding, whatever its counts.
func (it *specItem) settle(epoch int64, seen *specSeen) (code int64) {
	switch {
	case !it.loaded:
		return 1
	case epoch != it.epoch, it.window != after, len(it.holds) > 0:
		return 2
	case seen != nil && *seen != specSeen{it.remaining, it.committed, it.rel, it.seq}:
		return 2
	}
	it.forget()
	return 0
}

// window is where an item's sale is in time; the other bound is far away.
type window uint8

const (
	during window = iota
	before
	after
)

// bounds are the window's opening and closing in Unix ms. They are further from now than a test takes.
func (w window) bounds(now int64) (opens, closes int64) {
	const hour = 3_600_000
	switch w {
	case before:
		return now + hour, now + 2*hour
	case after:
		return now - 2*hour, now - hour
	default:
		return now - hour, now + hour
	}
}
