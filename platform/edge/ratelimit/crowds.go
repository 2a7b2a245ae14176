package ratelimit

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"net/netip"
	"time"
)

// MostLevel is the highest level: eight times the budget and more.
const MostLevel = 4

// Level is how far a number of events exceeds a budget: 0 below it, then 1, and one
// more for each doubling, up to MostLevel. A budget of 0 is never exceeded.
func Level(n, budget int) int {
	if budget <= 0 || n <= 0 {
		return 0
	}
	return min(bits.Len(uint(n/budget)), MostLevel)
}

// Crowds count, in memory, the distinct members of groups: the users of a network. A
// group's count falls by its budget in each period. It is the table of the limits
// with another reading: a group's TAT is how many members it has, and a member whose
// TAT lies ahead was counted within the period. Under more members than the table has
// places some are counted twice; large groups stay. Safe for concurrent use.
type Crowds struct {
	budget int
	period time.Duration
	table  table
	seed   maphash.Seed
	began  time.Time
}

// NewCrowds returns crowds whose smallest networks may have budget members in a
// period, at least one.
func NewCrowds(budget int, period time.Duration) *Crowds {
	return &Crowds{budget: max(budget, 1), period: period, seed: maphash.MakeSeed(), began: time.Now()}
}

// Join counts a user among those of an address's networks who did something, once in
// a period, and returns the highest Level of these networks. A network has twice the
// budget of the next smaller one in it. An invalid address has level 0.
func (c *Crowds) Join(thing, user int64, addr netip.Addr) (level int) {
	networks := Networks(addr)
	if len(networks) == 0 {
		return 0
	}
	now := time.Since(c.began)
	once := Rule{Count: 1, Per: c.period}
	_, first := c.table.take(c.subject(thing, user, networks[0]), once, now)
	for i, network := range networks {
		budget := c.budget << i
		// The rule ends where the highest level begins, so that a group leaves it soon.
		rule := Rule{Count: budget<<(MostLevel-1) + 1, Per: c.period<<(MostLevel-1) + c.period/time.Duration(budget)}
		s := c.subject(thing, 0, network)
		var ahead time.Duration
		if first {
			ahead, _ = c.table.take(s, rule, now)
		} else {
			ahead = c.table.look(s, now)
		}
		members := int((ahead + rule.interval() - 1) / rule.interval())
		level = max(level, Level(members-1, budget))
	}
	return level
}

// subject hashes with a seed of this process, so that a client cannot choose subjects
// that collide. User 0 is the group itself.
func (c *Crowds) subject(thing, user int64, network netip.Prefix) (s subject) {
	type key struct {
		thing, user int64
		network     netip.Prefix
	}
	h := maphash.Comparable(c.seed, key{thing, user, network})
	binary.LittleEndian.PutUint64(s[:], h)
	binary.LittleEndian.PutUint32(s[8:], uint32(thing)) //nolint:gosec // some bits of it
	return s
}
