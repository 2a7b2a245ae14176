package rush

import (
	"strconv"
	"sync"
	"sync/atomic"

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

func newMetrics(reg prometheus.Registerer, board *tally.Board, depths func(yield func(item int64, waiting int))) (*metrics, error) {
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

// collector passes the tallies and the lanes' depths to Prometheus.
type collector struct {
	metrics *metrics
	depths  func(yield func(item int64, waiting int))
}

var (
	answersDesc = prometheus.NewDesc("stampede_seckill_rush_answers_total",
		"Answers to rushes by code; left counts clients that disconnected while waiting, admission-rate those answered too-hot because of the operator's rate.", []string{"code"}, nil)
	waitingDesc = prometheus.NewDesc("stampede_seckill_lane_waiting",
		"Attempts waiting in an item's lane on this instance.", []string{"item"}, nil)
)

// Describe sends the descriptions of the metrics.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	out <- answersDesc
	out <- waitingDesc
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
	c.depths(func(item int64, waiting int) {
		out <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue,
			float64(waiting), strconv.FormatInt(item, 10))
	})
}
