package revoke

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are the Service's counters.
type metrics struct {
	looks  *prometheus.CounterVec
	cutOff prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, l *list) metrics {
	auto := promauto.With(reg)
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stampede_auth_revocations", Help: "Revocations in force that this instance keeps in memory.",
	}, func() float64 { return float64(l.len()) })
	m := metrics{
		looks: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_auth_revocation_looks_total", Help: "Reads of new revocations, by the store that answered: postgres, redis or nowhere.",
		}, []string{"store"}),
		cutOff: auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_auth_cut_off_total", Help: "Tokens refused with 503 because this instance could not tell whether they were revoked.",
		}),
	}
	for _, store := range []string{"postgres", "redis", "nowhere"} {
		m.looks.WithLabelValues(store) // exported from the first scrape on, so that the first rate is right
	}
	return m
}
