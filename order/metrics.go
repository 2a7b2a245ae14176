package order

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	written     *prometheus.CounterVec
	writeTime   prometheus.Histogram
	batchSize   prometheus.Histogram
	writeErrors prometheus.Counter
	cacheReads  *prometheus.CounterVec
	cachePuts   *prometheus.CounterVec
	loads       prometheus.Counter
	closed      *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	const namespace, subsystem = "stampede", "order"
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets,
		})
	}
	m := &metrics{
		written: prometheus.NewCounterVec(opts("written_total",
			"Grants that the order writer settled, by result: created, duplicate, shortfall, interrupted, known, malformed."), []string{"result"}),
		writeTime: histogram("write_seconds", "Time from taking grants to their orders' commit, with retries.",
			prometheus.ExponentialBuckets(0.001, 2, 15)),
		batchSize: histogram("write_batch_size", "Grants per writer transaction.", prometheus.ExponentialBuckets(1, 2, 15)),
		writeErrors: prometheus.NewCounter(opts("write_failures_total",
			"Writer transactions that Postgres did not take and that were tried again.")),
		cacheReads: prometheus.NewCounterVec(opts("cache_reads_total", "Reads of the order cache, by result: hit, miss, error."), []string{"result"}),
		cachePuts: prometheus.NewCounterVec(opts("cache_puts_total",
			"Changed orders put into the cache, by result: stored, kept, no_room."), []string{"result"}),
		loads:  prometheus.NewCounter(opts("loads_total", "Order numbers that had to be asked of Postgres.")),
		closed: prometheus.NewCounterVec(opts("closed_total", "Orders closed, by reason."), []string{"reason"}),
	}
	for _, c := range []prometheus.Collector{
		m.written, m.writeTime, m.batchSize, m.writeErrors, m.cacheReads, m.cachePuts, m.loads, m.closed,
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("order: register metrics: %w", err)
		}
	}
	return m, nil
}
