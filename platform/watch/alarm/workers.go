package alarm

import (
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/app"
)

// Workers are an instance's loops: one runs the probes of its parts and any further
// ones, one posts to hook. Workers registers the collector of open alarms and the
// notifier's metrics with metrics, and returns what is wrong with hook.
func Workers(pool *pgxpool.Pool, hook Webhook, parts Parts, log *slog.Logger, metrics prometheus.Registerer, more ...Probe) ([]app.Worker, error) {
	notifier, err := NewNotifier(pool, hook, log, metrics)
	if err != nil {
		return nil, err
	}
	if err := metrics.Register(NewCollector(pool)); err != nil {
		return nil, err
	}
	return []app.Worker{
		{Name: "alarm-watch", Run: NewWatch(pool, log, append(Probes(pool, parts), more...)...).Run},
		{Name: "alarm-webhook", Run: notifier.Run},
	}, nil
}
