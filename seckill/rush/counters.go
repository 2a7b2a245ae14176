package rush

import (
	"sync/atomic"
	"time"

	"stampede/platform/watch/tally"
)

// Stages of the funnel that the rush counts, and its moments.
const (
	StageAnswers = "answers" // to rushes, by code
	StagePaths   = "paths"   // answers to requests for a path, by code
	StageGrants  = "grants"  // published to the order writer, by outcome
	StageWaits   = "waits"   // of rushes that went through a lane, by upper bound, see tally.Step

	MomentGranted = "granted" // a unit was granted
	MomentEmptied = "emptied" // the last free unit was granted
)

// maxTallies bounds the items whose tallies are kept. Above it, tallies of
// items that have left the catalogue are dropped; a shop has a few dozen items
// a day.
const maxTallies = 4096

// stripes spreads an item's counters over the shoppers, so that processors that
// answer different shoppers at the same time rarely meet at one. Each stripe is a
// few cache lines of its own.
const stripes = 8

// counted is what is counted of an item: its answers by outcome, and after them by step
// the waits of those that went through its lane.
const counted = int(outcomes) + tally.Steps

// counters count that exactly.
type counters struct {
	striped [stripes]struct {
		counts [counted]atomic.Int64
		_      [64]byte // the next stripe's cache line is another one
	}
	handedOver [counted]int64 // to the board; only its goroutine uses it
}

// sum is the count at an index.
func (c *counters) sum(at int) (n int64) {
	for i := range c.striped {
		n += c.striped[i].counts[at].Load()
	}
	return n
}

// count counts an answer to a user about an item. known is false for items that
// are not in the catalogue, which get no tally.
func (m *metrics) count(item, user int64, known bool, o outcome) {
	if !known {
		m.others[o].Add(1)
		return
	}
	m.add(item, user, int(o))
}

// countWait counts how long a user's rush was in the item's lane.
func (m *metrics) countWait(item, user int64, took time.Duration) {
	m.add(item, user, int(outcomes)+tally.Step(took))
}

func (m *metrics) add(item, user int64, at int) {
	m.of(item).striped[uint64(user)%stripes].counts[at].Add(1) //nolint:gosec // any spread will do
}

// of returns an item's counters.
func (m *metrics) of(item int64) *counters {
	if c := m.perItem.find(item); c != nil {
		return c
	}
	return m.perItem.findOrAdd(item, func() *counters { return new(counters) })
}

// handOver is the board's source: what was counted since its last call.
func (m *metrics) handOver(add func(item int64, stage, code string, n int64)) {
	for item, c := range m.perItem.items() {
		for at := range counted {
			fresh := c.sum(at) - c.handedOver[at]
			if fresh == 0 {
				continue
			}
			if step := at - int(outcomes); step < 0 {
				add(item, StageAnswers, outcome(at).String(), fresh) //nolint:gosec // below outcomes
			} else {
				add(item, StageWaits, tally.StepCode(step), fresh)
			}
			c.handedOver[at] += fresh
		}
	}
}

// trim keeps the tallies within their bound. It runs on the board's goroutine, after
// the tallies have been handed over.
func (m *metrics) trim(published func(item int64) bool) {
	if len(m.perItem.items()) <= maxTallies {
		return
	}
	m.trimmed.Lock()
	defer m.trimmed.Unlock()
	for _, c := range m.perItem.drop(func(item int64) bool { return !published(item) }) {
		for o := range outcomes {
			m.others[o].Add(c.sum(int(o)))
		}
	}
}
