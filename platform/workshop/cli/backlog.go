package cli

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"stampede/platform/watch/proof"
)

// The server's metrics about GRANTS. Only the server itself can see the streams
// of an embedded NATS.
const (
	backlogMetric = "stampede_bus_grants_messages"
	handledMetric = "stampede_bus_messages_handled_total"
	// grantsReader is the consumer label of the order writer.
	grantsReader = "order-writer"
	// metricsTimeout bounds one scrape; the slowest part of it waits 2 s for
	// Postgres.
	metricsTimeout = 5 * time.Second
)

// grantsFlow is the part of I7 that only a server knows: the order writer processes
// what waits on GRANTS.
func grantsFlow(metricsURL string, recheck time.Duration) proof.Check {
	return proof.Check{ID: "I7", Name: "grants are being written", Run: func(ctx context.Context) ([]proof.Violation, error) {
		return proof.Flow(ctx, "grants", recheck, func(ctx context.Context) (waiting, handled uint64, err error) {
			return readFlow(ctx, metricsURL)
		})
	}}
}

// readFlow scrapes how many messages wait on GRANTS and how many the order writer
// has handled.
func readFlow(ctx context.Context, metricsURL string) (backlog, handled uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, metricsURL, nil)
	if err != nil {
		return 0, 0, fmt.Errorf("read the server's metrics: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, 0, fmt.Errorf("read the server's metrics: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // only read
	// A scrape without Postgres has an error for some metrics, and answers 500.
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return 0, 0, fmt.Errorf("read the server's metrics: %w", err)
	}
	waiting, ok := families[backlogMetric]
	if !ok {
		return 0, 0, fmt.Errorf("read the server's metrics: %s has no %s", metricsURL, backlogMetric)
	}
	for _, m := range waiting.GetMetric() {
		backlog += uint64(m.GetGauge().GetValue())
	}
	for _, m := range families[handledMetric].GetMetric() {
		if slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetValue() == grantsReader }) {
			handled += uint64(m.GetCounter().GetValue())
		}
	}
	return backlog, handled, nil
}
