package inventory

import (
	"maps"

	"stampede/platform/base/ids"
)

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
		return []int64{withdrawOtherRev, 0}
	}
	taken := plan + it.retaken - it.total
	more := min(units-taken, max(it.remaining, 0))
	it.total -= more
	it.remaining -= more
	if more < 0 {
		it.rel++
	}
	return []int64{withdrawDone, taken + more}
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
	return []int64{fenceDone, it.epoch, it.seq, int64(flag(it.here))}
}

// specLoad has the arguments of patch.lua and load.lua. whole is false if Redis
// has lost keys since they were written.
type specLoad struct {
	epoch, replaced, remaining, committed, retaken int64
	with                                           specChange
	unlimited, thisRun, whole                      bool
	users                                          map[int64]mark
	gone                                           map[ids.ID]fate
}

// patch is all of a Load's calls of patch.lua: the code. With a state the keys
// are changed in place.
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
		rebuy: l.with.rebuy, retaken: l.retaken, users: l.users, gone: l.gone, holds: map[ids.ID]specHold{},
	}
	return []int64{loadDone, it.epoch, it.rel}
}

// specSeen has the figures that settle.lua compares: those of the state that
// the caller read.
type specSeen struct{ remaining, committed, rel, seq int64 }

// settle is settle.lua. Without seen the caller considers the state not
// deciding, whatever its counts.
func (it *specItem) settle(epoch int64, seen *specSeen) (code int64) {
	switch {
	case !it.loaded:
		return 1
	case epoch != it.epoch, it.window != after, len(it.holds) > 0:
		return settleKept
	case seen != nil && *seen != specSeen{it.remaining, it.committed, it.rel, it.seq}:
		return settleKept
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

// bounds are the window's opening and closing in Unix ms. They are further from
// now than a test takes.
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
