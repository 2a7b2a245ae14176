package bus

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	publish  *prometheus.HistogramVec
	handled  *prometheus.CounterVec
	restarts prometheus.Counter
	healthy  prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	auto := promauto.With(reg)
	m := &metrics{
		publish: auto.NewHistogramVec(prometheus.HistogramOpts{
			Name: "stampede_bus_publish_seconds", Help: "Time until a published message was stored or given up on.",
			// A synced write takes 0.3 ms, the deadline is 5 s.
			Buckets: prometheus.ExponentialBuckets(0.00025, 2.5, 12),
		}, []string{"stream", "outcome"}),
		handled: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_bus_messages_handled_total", Help: "Messages delivered to a consumer, by outcome: handled, retried, dead, dropped, newer, skipped.",
		}, []string{"consumer", "outcome"}),
		restarts: auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_bus_restarts_total", Help: "Restarts of the embedded NATS after a failure.",
		}),
		healthy: auto.NewGauge(prometheus.GaugeOpts{
			Name: "stampede_bus_healthy", Help: "1 while GRANTS takes messages.",
		}),
	}
	// Present from the first scrape, so that the first rate is right.
	m.publish.WithLabelValues(streamEvents, "stored")
	return m
}

func (m *metrics) published(stream, outcome string, took time.Duration) {
	m.publish.WithLabelValues(stream, outcome).Observe(took.Seconds())
}
