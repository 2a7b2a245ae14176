package risk

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	decisions       *prometheus.CounterVec
	elsewhere       prometheus.Counter
	lost            prometheus.Counter
	refreshFailures prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_risk_decisions_total", Help: "Decisions that restricted a shopper's rush path, by result: short-window, later, refused-by-chance, refused, paused; dry-run restricted nothing yet.",
		}, []string{"result"}),
		elsewhere: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stampede_risk_one_activity_refusals_total", Help: "Rush paths refused because the shopper takes part in another exclusive activity.",
		}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stampede_risk_decisions_lost_total", Help: "Decisions that were in force but could not be stored.",
		}),
		refreshFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stampede_risk_refresh_failures_total", Help: "Times the risk rules could not be read from Postgres.",
		}),
	}
	for _, result := range [...]string{resultShortWindow, resultLater, resultUnlucky, resultRefused, resultPaused, resultDryRun} {
		m.decisions.WithLabelValues(result) // visible from the start, as 0
	}
	for _, c := range [...]prometheus.Collector{m.decisions, m.elsewhere, m.lost, m.refreshFailures} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("risk: register metrics: %w", err)
		}
	}
	return m, nil
}
