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

// devicePart of the budget is a device's: what a family shares.
const devicePart = 16

// Origin is what a request comes from, as far as it has a record.
type Origin struct {
	Address netip.Addr // invalid when many clients share it
	Device  [16]byte   // the id in the client's signed cookie; zero without one
}

// Join counts a user among those of an origin who did something, once in a period for
// the smallest network and once for the device. It returns the highest Level of the
// origin's networks and device. A network has twice the budget of the next smaller one
// in it. An Origin that is zero has level 0.
func (c *Crowds) Join(thing, user int64, from Origin) (level int) {
	networks := Networks(from.Address)
	groups := make([]group, 0, 1+len(networks))
	for i, n := range networks {
		groups = append(groups, group{n.Addr().As16(), byte(n.Bits()), c.budget << i}) //nolint:gosec // at most 128
	}
	if len(groups) > 0 {
		level = c.join(thing, user, groups)
	}
	if from.Device != [16]byte{} {
		level = max(level, c.join(thing, user, []group{{from.Device, ofDevice, max(c.budget/devicePart, 1)}}))
	}
	return level
}

// group is users with something in common.
type group struct {
	id     [16]byte
	kind   byte // the bits of a network, or ofDevice
	budget int
}

const ofDevice = 255

// join counts a user in groups, of which the first decides whether the user is new.
func (c *Crowds) join(thing, user int64, groups []group) (level int) {
	now := time.Since(c.began)
	once := Rule{Count: 1, Per: c.period}
	_, first := c.table.take(c.subject(thing, user, groups[0]), once, now)
	for _, g := range groups {
		// The rule ends where the highest level begins, so that a group leaves it soon.
		rule := Rule{Count: g.budget<<(MostLevel-1) + 1, Per: c.period<<(MostLevel-1) + c.period/time.Duration(g.budget)}
		s := c.subject(thing, 0, g)
		var ahead time.Duration
		if first {
			ahead, _ = c.table.take(s, rule, now)
		} else {
			ahead = c.table.look(s, now)
		}
		members := int((ahead + rule.interval() - 1) / rule.interval())
		level = max(level, Level(members-1, g.budget))
	}
	return level
}

// subject hashes with a seed of this process, so that a client cannot choose subjects
// that collide. User 0 is the group itself.
func (c *Crowds) subject(thing, user int64, of group) (s subject) {
	type key struct {
		thing, user int64
		of          group
	}
	binary.LittleEndian.PutUint64(s[:], maphash.Comparable(c.seed, key{thing, user, of}))
	binary.LittleEndian.PutUint32(s[8:], uint32(thing)) //nolint:gosec // some bits of it
	return s
}
