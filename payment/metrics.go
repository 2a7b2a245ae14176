package payment

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics of the module. Labels are bounded: providers are configured,
// everything else is an enumeration of this package.
type metrics struct {
	started   *prometheus.CounterVec
	captures  *prometheus.CounterVec
	callbacks *prometheus.CounterVec
	refunds   *prometheus.CounterVec
	calls     *prometheus.HistogramVec
	failures  *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	auto := promauto.With(reg)
	return &metrics{
		started: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_payment_started_total", Help: "Payments created for orders; a repeated request for an open one creates none.",
		}, []string{"provider"}),
		captures: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_payment_captures_total", Help: "Captures, by outcome: paid, retaken (closed before, paid with units of the backup), late, duplicate, mismatch, repeated.",
		}, []string{"provider", "outcome"}),
		callbacks: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_payment_callbacks_total", Help: "Callbacks of providers, by answer: taken, bad_signature, unreadable, refused, failed.",
		}, []string{"provider", "answer"}),
		refunds: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_payment_refunds_total", Help: "Refunds, by event: requested, succeeded, failed.",
		}, []string{"provider", "event"}),
		calls: auto.NewHistogramVec(prometheus.HistogramOpts{
			Name: "stampede_payment_provider_call_seconds", Help: "Time that a call to a provider took, with its retries.",
			Buckets: []float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"provider", "call"}),
		failures: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_payment_provider_call_failures_total", Help: "Calls to a provider that ended without an answer.",
		}, []string{"provider", "call"}),
	}
}

// know creates a provider's series, so that they exist from the first scrape on
// and the first rate is right.
func (m *metrics) know(name string) {
	m.started.WithLabelValues(name)
	for _, outcome := range []string{outcomePaid, outcomeRetaken, outcomeLate, outcomeDuplicate, outcomeMismatch, outcomeRepeated} {
		m.captures.WithLabelValues(name, outcome)
	}
	for _, answer := range []string{"taken", "bad_signature", "unreadable", "refused", "failed"} {
		m.callbacks.WithLabelValues(name, answer)
	}
	for _, event := range []string{"requested", "succeeded", "failed"} {
		m.refunds.WithLabelValues(name, event)
	}
	for _, call := range []string{"create", "query", "close", "refund"} {
		m.calls.WithLabelValues(name, call)
		m.failures.WithLabelValues(name, call)
	}
}

// Stages of an item's funnel that this module counts.
const (
	stagePayments = "payments" // started, and captures by outcome
	stageRefunds  = "refunds"  // refunds that ended: succeeded, failed
)
