package inventory

import (
	"strconv"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
)

// specItem is one item in Redis as the headers of the scripts describe it, in
// plain Go: what the keys mean, not how a script accesses them.
type specItem struct {
	item Item
	// loaded is false without a state. The fields below it are then meaningless.
	loaded bool
	// here is false once Redis was restarted: the state names another run.
	here                                                                bool
	epoch, rev, total, remaining, committed, seq, persisted, rel, limit int64
	fenced                                                              int64 // the coming epoch, 0 if open
	window                                                              window
	paused, unlimited, rebuy                                            bool
	users                                                               map[int64]mark
	holds                                                               map[ids.ID]specHold
	gone                                                                map[ids.ID]fate
	retaken                                                             int64
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

// held is what blocks another grant to a user: the item's own mark, or what the
// user has of another item of the activity.
func (s *spec) held(it *specItem, user int64) (mark, bool) {
	if m, ok := it.users[user]; ok {
		return m, true
	}
	if it.item.PerActivity {
		b, ok := s.buyers[user]
		return mark{no: b.no, closed: b.closed}, ok
	}
	return mark{}, false
}

// reserve is reserve.lua.
func (s *spec) reserve(it *specItem, epoch int64, attempts []Attempt) Decision {
	if !it.loaded {
		return Decision{Gate: Fenced}
	}
	var d Decision
	switch {
	case epoch != it.epoch, it.fenced != 0, !it.here:
		d.Gate = Fenced
	case it.window == before:
		d.Gate = NotStarted
	case it.window == after:
		d.Gate = Ended
	case it.paused:
		d.Gate = Paused
	case it.noUsers, it.noHolds, it.item.PerActivity && s.noBuyers:
		d.Gate = Fenced
		it.fenced = it.epoch + 1
	default:
		for _, a := range attempts {
			d.Results = append(d.Results, s.decide(it, a))
		}
	}
	d.Epoch, d.Remaining, d.Committed, d.Total = it.epoch, it.remaining, it.committed, it.total
	d.Seq, d.Persisted, d.Rel = it.seq, it.persisted, it.rel
	return d
}

// decide judges one attempt after those before it in the batch took effect: a
// batch equals its attempts one by one.
func (s *spec) decide(it *specItem, a Attempt) Result {
	held, has := s.held(it, a.User)
	_, ended := it.gone[a.No]
	units := int64(a.Quantity)
	switch {
	case has && held.no == a.No && !held.closed:
		return Result{Verdict: Repeated, Seq: it.holds[a.No].seq}
	case has && held.no == a.No, ended:
		return Result{Verdict: Finished}
	case has:
		r := Result{Verdict: AlreadyBought, Other: held.no}
		if own := it.users[a.User]; own.no == held.no {
			hold := it.holds[held.no]
			r.Seq, r.Quantity, r.PayWithin = hold.seq, hold.quantity, hold.within
		}
		return r
	case units > it.limit:
		return Result{Verdict: OverLimit}
	case it.unlimited || units <= it.remaining:
		it.remaining -= units
		it.seq++
		it.users[a.User] = mark{no: a.No, quantity: a.Quantity}
		it.holds[a.No] = specHold{user: a.User, seq: it.seq, quantity: a.Quantity, within: a.PayWithin}
		if it.item.PerActivity {
			s.buyers[a.User] = specBuyer{no: a.No, item: it.item.ID}
		}
		return Result{Verdict: Granted, Seq: it.seq}
	case it.remaining > 0:
		return Result{Verdict: NotEnough}
	case it.committed >= it.total:
		return Result{Verdict: SoldOut}
	default:
		return Result{Verdict: AllHeld}
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

// turnedAway is the beginning of release.lua and commit.lua; on false they
// continue.
func (it *specItem) turnedAway(epoch int64) (code int64, away bool) {
	switch {
	case !it.loaded:
		return codeNoState, true
	case it.fenced != 0:
		return codeFenced, true
	case epoch != it.epoch:
		return codeOtherEpoch, true
	default:
		return codeDone, false
	}
}

// release is release.lua.
func (s *spec) release(it *specItem, epoch int64, numbers []Attempt, status string, will fate) []int64 {
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
		if !ok || m.no != a.No || m.closed {
			continue
		}
		given++
		it.remaining += int64(m.quantity)
		it.rel++
		if m.paid {
			it.committed -= int64(m.quantity)
		}
		delete(it.users, a.User)
		if stays {
			it.users[a.User] = mark{no: a.No, closed: true}
		}
	}
	return []int64{codeDone, it.epoch, it.rel, given}
}

// retake is retake.lua; the indexes of those that wait follow the figures.
func (s *spec) retake(it *specItem, epoch int64, numbers []Attempt) []int64 {
	if code, away := it.turnedAway(epoch); away {
		return []int64{code, it.epoch, it.rel, 0, 0}
	}
	for _, a := range numbers {
		if m := it.users[a.User]; m.no == a.No && m.paid && it.gone[a.No] != takenUp {
			it.fenced = it.epoch + 1
			return []int64{codeFenced, it.epoch, it.rel, 0, 0}
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
		inWay := ok && !m.closed && m.no != a.No || it.item.PerActivity && bought && !b.closed && b.no != a.No
		if inWay || busy[a.User] {
			waiting = append(waiting, int64(i+1))
			continue
		}
		busy[a.User] = true
		taken++
		if ok && m.no == a.No && !m.closed {
			returned += int64(a.Quantity)
			it.remaining += int64(a.Quantity)
			it.rel++
		}
		it.users[a.User] = mark{no: a.No, quantity: a.Quantity, paid: true}
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
	return append([]int64{codeDone, it.epoch, it.rel, taken, returned}, waiting...)
}

// commit is commit.lua.
func (it *specItem) commit(epoch int64, numbers []Attempt) []int64 {
	if code, away := it.turnedAway(epoch); away {
		return []int64{code, it.epoch, 0}
	}
	var done int64
	for _, a := range numbers {
		if m, ok := it.users[a.User]; ok && m.no == a.No && !m.paid && !m.closed {
			m.paid = true
			it.users[a.User] = m
			it.committed += int64(m.quantity)
			done++
		}
	}
	return []int64{codeDone, it.epoch, done}
}

// hold is hold.lua: code, epoch, persisted, mark and sequence.
func (it *specItem) hold(epoch, user int64) (figures [3]int64, text string, seq int64) {
	if !it.loaded {
		return [3]int64{codeNoState, 0, 0}, "", 0
	}
	m, ok := it.users[user]
	hold, open := it.holds[m.no]
	code, text := int64(2), ""
	switch {
	case epoch != it.epoch:
		code = codeOtherEpoch
	case ok && !m.closed && !open && !it.noHolds:
		code, text = 0, m.String()
	case ok && !m.closed && open && it.here:
		code, text, seq = 0, m.String(), hold.seq
	case ok && !m.closed, it.fenced != 0, !it.here, it.noUsers:
		code = 4 // unknown now
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
		"paused": int64(flag(it.paused)), "unlimited": int64(flag(it.unlimited)), "rebuy": int64(flag(it.rebuy)), "retaken": it.retaken,
	} {
		fields[name] = strconv.FormatInt(v, 10)
	}
	return fields
}
