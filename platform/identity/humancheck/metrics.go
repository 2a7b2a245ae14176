package humancheck

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// results are all values of the label result: a reason of a refusal, or one of
// passed, required (no solution was sent), unavailable and stood-in (a proof of work
// was required because the verifier is down).
var results = []string{
	"passed", "required", "unavailable", "stood-in",
	errMalformed.Error(), errForged.Error(), errForeign.Error(), errLate.Error(), errWeak.Error(), errUsed.Error(), errDrag.Error(), errWrong.Error(),
}

type metrics struct {
	challenges, checks *prometheus.CounterVec
}

// newMetrics registers the metrics. Every series exists from the start, so that its
// rate is right from the first increment.
func newMetrics(reg prometheus.Registerer) *metrics {
	auto := promauto.With(reg)
	m := &metrics{
		challenges: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_human_challenges_total", Help: "Challenges issued, by kind. A proof of work that replaces the verifier is of kind pow.",
		}, []string{"kind"}),
		checks: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_human_checks_total", Help: "Human checks, by kind and result: passed, required, or the reason of the refusal.",
		}, []string{"kind", "result"}),
	}
	for _, k := range []Kind{Pow, Slide, Verifier} {
		m.challenges.WithLabelValues(string(k))
		for _, r := range results {
			m.checks.WithLabelValues(string(k), r)
		}
	}
	return m
}

func (m *metrics) issued(kind Kind) { m.challenges.WithLabelValues(string(kind)).Inc() }

func (m *metrics) result(kind Kind, result string) {
	m.checks.WithLabelValues(string(kind), result).Inc()
}
