package alarm

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/app"
	"stampede/platform/store/pg"
	"stampede/platform/store/pulse"
	"stampede/platform/watch/alarm/internal/alarmdb"
)

// Workers are an instance's loops: one runs the probes of its parts and any further
// ones, one is the notifier's, one publishes incidents. Workers registers the collector of
// open alarms with metrics.
func Workers(pool *pgxpool.Pool, p *pulse.Pulse, notifier *Notifier, parts Parts, log *slog.Logger, metrics prometheus.Registerer, more ...Probe) ([]app.Worker, error) {
	if err := metrics.Register(NewCollector(pool)); err != nil {
		return nil, err
	}
	return []app.Worker{
		{Name: "alarm-watch", Run: NewWatch(pool, log, append(Probes(pool, parts), more...)...).Run},
		{Name: "alarm-notifier", Run: notifier.Run},
		{Name: "alarm-events", Run: app.Loop{
			Every: publishEvery, Due: p.Due("alarm-events", unpublished), Log: log, Failed: "publishing alarms failed, retrying",
			Do: func(ctx context.Context) error { return publish(ctx, pool) },
		}.Run},
	}, nil
}

// scrapeTimeout keeps a slow Postgres from delaying a scrape, whose default limit is
// 10 s.
const scrapeTimeout = 2 * time.Second

// Collector exports the unacknowledged alarms as the gauge stampede_alarms by code
// and severity. It reads the table at each scrape, so every instance reports the
// same; without Postgres the scrape gets an error for this metric only.
type Collector struct {
	db   pg.DB
	desc *prometheus.Desc
}

// NewCollector makes a Collector; the caller registers it.
func NewCollector(db pg.DB) *Collector {
	return &Collector{db: db, desc: prometheus.NewDesc("stampede_alarms",
		"Unacknowledged alarms.", []string{"code", "severity"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect reads the table.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	open, err := alarmdb.New(c.db).CountOpenAlarms(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.desc, err)
		return
	}
	for _, n := range open {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, n.Alarms, n.Code, n.Severity)
	}
}
