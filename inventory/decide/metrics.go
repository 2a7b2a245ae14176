package decide

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics has verdicts and gates as arrays, indexed by the value counted, because the hot path updates them: a label
// lookup per attempt would be measurable.
type metrics struct {
	reserve  prometheus.Histogram
	verdicts [Elsewhere + 1]prometheus.Counter
	gates    [Paused + 1]prometheus.Counter
	failures prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	reg := promauto.With(registerer)
	m := &metrics{
		reserve: reg.NewHistogram(prometheus.HistogramOpts{
			Name: "stampede_inventory_reserve_seconds", Help: "Time of one batched decision, including the round trip to Redis.",
			// A full batch takes about 0.5 ms on an idle machine; a second is an outage.
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 14),
		}),
		failures: reg.NewCounter(prometheus.CounterOpts{
			Name: "stampede_inventory_reserve_failures_total", Help: "Batched decisions whose outcome is not known.",
		}),
	}
	verdicts := reg.NewCounterVec(prometheus.CounterOpts{
		Name: "stampede_inventory_verdicts_total", Help: "Attempts decided, by verdict.",
	}, []string{"verdict"})
	gates := reg.NewCounterVec(prometheus.CounterOpts{
		Name: "stampede_inventory_batches_total", Help: "Batches, by the item's gate.",
	}, []string{"gate"})
	for v := range m.verdicts {
		m.verdicts[v] = verdicts.WithLabelValues(Verdict(v).String())
	}
	for g := range m.gates {
		m.gates[g] = gates.WithLabelValues(Gate(g).String())
	}
	return m
}

// count sums a batch first: one addition for each verdict that occurred and not one for each attempt.
func (m *metrics) count(d *Decision) {
	m.gates[d.Gate].Inc()
	var n [Elsewhere + 1]int
	for i := range d.Results {
		n[d.Results[i].Verdict]++
	}
	for v, k := range n {
		if k > 0 {
			m.verdicts[v].Add(float64(k))
		}
	}
}
