package rush

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/fault"
	"stampede/platform/watch/tally"
)

// metrics is everything that a rush measures. Answers are counted in plain
// atomics, because a labelled counter costs several times as much and the
// funnel needs exact figures per item anyway. An answer is one addition, to the
// counter of its item and its shopper's stripe; what is not about a known item is
// counted in others.
type metrics struct {
	others  [outcomes]atomic.Int64
	perItem itemIndex[counters]
	trimmed sync.RWMutex // held to read others and all tallies together, and to move tallies into others
	board   *tally.Board // merges the funnel of all instances; nil for none

	paths     *prometheus.CounterVec
	batch     prometheus.Histogram
	published *prometheus.CounterVec
}

// The outcomes of publishing a grant.
const (
	grantStored    = "stored"   // on disk, answered 202
	grantRepeated  = "repeated" // on disk once more, because the first publication could not be confirmed
	grantUncertain = "unknown"  // answered unknown; the sweeper settles it
)

// pathIssued is the code under which an issued path is counted; refusals are
// counted under their own codes.
const pathIssued = "issued"

func newMetrics(reg prometheus.Registerer, board *tally.Board, depths func(yield func(item int64, d depth))) (*metrics, error) {
	m := &metrics{
		board: board,
		paths: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_seckill_paths_total",
			Help: "Requests for a rush path, by code: issued, or the refusal's code.",
		}, []string{"code"}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "stampede_seckill_lane_batch_attempts",
			Help: "Attempts of a lane decided by one call to Redis.", Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}),
		published: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_seckill_grants_published_total",
			Help: "Grants published to the order writer, by outcome: stored, repeated (stored once more), unknown.",
		}, []string{"outcome"}),
	}
	m.paths.WithLabelValues(pathIssued) // from the first scrape on, so that the first rate is right
	for _, outcome := range []string{grantStored, grantRepeated, grantUncertain} {
		m.published.WithLabelValues(outcome)
	}
	for _, c := range []prometheus.Collector{m.paths, m.batch, m.published, &collector{m, depths}} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// countPath counts a request for a path to an item.
func (m *metrics) countPath(item int64, err error) {
	code := pathIssued
	if err != nil {
		code = fault.From(err).Code // one of a handful, all defined in this module
	}
	m.paths.WithLabelValues(code).Inc()
	m.board.Count(item, StagePaths, code, 1)
}

// countPublished counts the grants of one message.
func (m *metrics) countPublished(item int64, fresh, repeated int, err error) {
	if err != nil {
		m.published.WithLabelValues(grantUncertain).Add(float64(fresh + repeated))
		m.board.Count(item, StageGrants, grantUncertain, int64(fresh+repeated))
		return
	}
	m.published.WithLabelValues(grantStored).Add(float64(fresh))
	m.published.WithLabelValues(grantRepeated).Add(float64(repeated))
	m.board.Count(item, StageGrants, grantStored, int64(fresh))
}

// depth is what waits for an item.
type depth struct {
	waiting      int   // in the lane
	line, passed int64 // see pacer
}

// collector passes the tallies and the lanes' depths to Prometheus.
type collector struct {
	metrics *metrics
	depths  func(yield func(item int64, d depth))
}

var (
	answersDesc = prometheus.NewDesc("stampede_seckill_rush_answers_total",
		"Answers to rushes by code; left counts clients that disconnected while waiting, wait-your-turn is also each time that a shopper in line asked.", []string{"code"}, nil)
	waitingDesc = prometheus.NewDesc("stampede_seckill_lane_waiting",
		"Attempts waiting in an item's lane on this instance.", []string{"item"}, nil)
	lineDesc = prometheus.NewDesc("stampede_seckill_admission_line",
		"Shoppers in line by an item's admission rate, on all instances, as this one last counted; an item without a line has none.", []string{"item"}, nil)
	passedDesc = prometheus.NewDesc("stampede_seckill_admission_passed_total",
		"Attempts that this instance let out of the line by an item's admission rate.", []string{"item"}, nil)
)

// Describe sends the descriptions of the metrics.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	out <- answersDesc
	out <- waitingDesc
	out <- lineDesc
	out <- passedDesc
}

// Collect sends the present values.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	m := c.metrics
	m.trimmed.RLock()
	for o := outQueued; o < outcomes; o++ {
		n := m.others[o].Load()
		for _, t := range m.perItem.items() {
			n += t.sum(int(o))
		}
		out <- prometheus.MustNewConstMetric(answersDesc, prometheus.CounterValue, float64(n), o.String())
	}
	m.trimmed.RUnlock()
	c.depths(func(id int64, d depth) {
		item := strconv.FormatInt(id, 10)
		out <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(d.waiting), item)
		if d.line+d.passed > 0 {
			out <- prometheus.MustNewConstMetric(lineDesc, prometheus.GaugeValue, float64(d.line), item)
			out <- prometheus.MustNewConstMetric(passedDesc, prometheus.CounterValue, float64(d.passed), item)
		}
	})
}

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
