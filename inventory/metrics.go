package inventory

import "github.com/prometheus/client_golang/prometheus"

// metrics of the module. Verdicts and gates are arrays, indexed by the value
// counted, because the hot path updates them.
type metrics struct {
	reserve  prometheus.Histogram
	verdicts [OverLimit + 1]prometheus.Counter
	gates    [Paused + 1]prometheus.Counter
	failures prometheus.Counter
	returns  *prometheus.CounterVec
	loads    *prometheus.CounterVec
	loadTime prometheus.Histogram
	// The last comparison of BooksProbe.
	differ, difference prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		reserve: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "stampede_inventory_reserve_seconds", Help: "Time of one batched decision, including the round trip to Redis.",
			// A full batch takes about 0.5 ms on an idle machine; a second is an outage.
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 14),
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stampede_inventory_reserve_failures_total", Help: "Batched decisions whose outcome is not known.",
		}),
		returns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_inventory_holds_ended_total", Help: "Holds that ended in Redis, by end: released, committed, retaken (paid late, from the backup).",
		}, []string{"end"}),
		loads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_inventory_loads_total", Help: "Loads by outcome.",
		}, []string{"outcome"}),
		loadTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "stampede_inventory_load_seconds", Help: "Time of a successful Load, mostly waiting for the queue to drain.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 14),
		}),
	}
	m.differ = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "stampede_inventory_books_differing_items", Help: "Items on sale whose counts in Postgres and Redis differed in the last comparison, one each second on one instance.",
	})
	m.difference = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "stampede_inventory_books_difference_units", Help: "Units by which the counts of items on sale differed in the last comparison. Releases on their way to Redis count for a moment.",
	})
	verdicts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "stampede_inventory_verdicts_total", Help: "Attempts decided, by verdict.",
	}, []string{"verdict"})
	gates := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "stampede_inventory_batches_total", Help: "Batches, by the item's gate.",
	}, []string{"gate"})
	// The counters are looked up once: a label lookup per attempt would be
	// measurable.
	for v := range m.verdicts {
		m.verdicts[v] = verdicts.WithLabelValues(Verdict(v).String())
	}
	for g := range m.gates {
		m.gates[g] = gates.WithLabelValues(Gate(g).String())
	}
	// Created now, so that the first rate is right.
	for _, end := range []string{"released", "committed", "retaken"} {
		m.returns.WithLabelValues(end)
	}
	for _, outcome := range []string{"done", "busy", "failed"} {
		m.loads.WithLabelValues(outcome)
	}
	if reg != nil {
		reg.MustRegister(m.differ, m.difference, m.reserve, m.failures, m.returns, m.loads, m.loadTime, verdicts, gates)
	}
	return m
}

// count sums a batch first: one addition for each verdict that occurred and not
// one for each attempt.
func (m *metrics) count(d *Decision) {
	m.gates[d.Gate].Inc()
	var n [OverLimit + 1]int
	for i := range d.Results {
		n[d.Results[i].Verdict]++
	}
	for v, k := range n {
		if k > 0 {
			m.verdicts[v].Add(float64(k))
		}
	}
}
