package revoke

import "github.com/prometheus/client_golang/prometheus"

// metrics is what the Service counts.
type metrics struct {
	known  prometheus.GaugeFunc
	looks  *prometheus.CounterVec
	cutOff prometheus.Counter
}

func newMetrics(l *list) metrics {
	m := metrics{
		known: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "stampede_auth_revocations", Help: "Revocations in force that this instance keeps in memory.",
		}, func() float64 { return float64(l.len()) }),
		looks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_auth_revocation_looks_total", Help: "Looks for new revocations, by the store that answered: postgres, redis or nowhere.",
		}, []string{"store"}),
		cutOff: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stampede_auth_cut_off_total", Help: "Tokens refused with 503 because this instance could not know whether they were revoked.",
		}),
	}
	for _, store := range []string{"postgres", "redis", "nowhere"} {
		m.looks.WithLabelValues(store) // from the first scrape on, so that the first rate is right
	}
	return m
}

func (m metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.known, m.looks, m.cutOff}
}
