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

// counters count an item's answers by outcome and the waits of those that went
// through its lane, exactly.
type counters struct {
	striped [stripes]struct {
		answers [outcomes]atomic.Int64
		waits   [tally.Steps]atomic.Int64
		_       [64]byte // the next stripe's cache line is another one
	}
	handedOver [int(outcomes) + tally.Steps]int64 // to the board; only its goroutine uses it
}

// answered is how many answers have had an outcome.
func (c *counters) answered(o outcome) int64 {
	n := int64(0)
	for i := range c.striped {
		n += c.striped[i].answers[o].Load()
	}
	return n
}

// waited is how many waits were within a step.
func (c *counters) waited(step int) int64 {
	n := int64(0)
	for i := range c.striped {
		n += c.striped[i].waits[step].Load()
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
	m.of(item).striped[uint64(user)%stripes].answers[o].Add(1) //nolint:gosec // any spread will do
}

// of returns an item's counters.
func (m *metrics) of(item int64) *counters {
	if c := m.perItem.find(item); c != nil {
		return c
	}
	return m.perItem.findOrAdd(item, func() *counters { return new(counters) })
}

// countWait counts how long a user's rush was in the item's lane.
func (m *metrics) countWait(item, user int64, took time.Duration) {
	m.of(item).striped[uint64(user)%stripes].waits[tally.Step(took)].Add(1) //nolint:gosec // any spread will do
}

// handOver is the board's source: what was counted since its last call.
func (m *metrics) handOver(add func(item int64, stage, code string, n int64)) {
	for item, c := range m.perItem.items() {
		for o := outQueued; o < outcomes; o++ {
			if n := c.answered(o); n > c.handedOver[o] {
				add(item, StageAnswers, o.String(), n-c.handedOver[o])
				c.handedOver[o] = n
			}
		}
		for step := range tally.Steps {
			at := int(outcomes) + step
			if n := c.waited(step); n > c.handedOver[at] {
				add(item, StageWaits, tally.StepCode(step), n-c.handedOver[at])
				c.handedOver[at] = n
			}
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
			m.others[o].Add(c.answered(o))
		}
	}
}
