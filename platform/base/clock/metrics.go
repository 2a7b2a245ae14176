package clock

import "github.com/prometheus/client_golang/prometheus"

var (
	offsetDesc = prometheus.NewDesc("stampede_clock_offset_seconds",
		"The Redis server's clock, which times the sale, minus this machine's.", nil, nil)
	ageDesc = prometheus.NewDesc("stampede_clock_sample_age_seconds",
		"Time since the last accepted sample of the Redis server's clock; it rises while Redis does not answer or answers slowly.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Server) Describe(ch chan<- *prometheus.Desc) { ch <- offsetDesc; ch <- ageDesc }

// Collect implements prometheus.Collector.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	offset, age := s.Offset()
	ch <- prometheus.MustNewConstMetric(offsetDesc, prometheus.GaugeValue, offset.Seconds())
	ch <- prometheus.MustNewConstMetric(ageDesc, prometheus.GaugeValue, age.Seconds())
}
