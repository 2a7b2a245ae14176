package revoke

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

func (s *Service) export(reg prometheus.Registerer) {
	auto := promauto.With(reg)
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stampede_auth_revocations", Help: "Revocations in force that this instance keeps in memory.",
	}, func() float64 { return float64(s.list.len()) })
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stampede_auth_revocations_age_seconds",
		Help: "Seconds since this instance last read new revocations from Postgres, or since its start; half a second at most while it can.",
	}, func() float64 { return (time.Since(s.began) - time.Duration(s.lastRead.Load())).Seconds() })
}
