package alarm

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// scrapeTimeout keeps a slow Postgres from holding up a scrape, whose own limit
// is 10 s by default.
const scrapeTimeout = 2 * time.Second

// Collector exports the alarms that nobody has acknowledged as the gauge
// stampede_alarms by code and severity. It reads the table at each scrape, so
// every instance reports the same; without Postgres the scrape gets an error
// for this metric alone.
type Collector struct {
	db   Querier
	desc *prometheus.Desc
}

// NewCollector makes one to be registered.
func NewCollector(db Querier) *Collector {
	return &Collector{db: db, desc: prometheus.NewDesc("stampede_alarms",
		"Alarms that nobody has acknowledged.", []string{"code", "severity"}, nil)}
}

// Describe names the metric.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect reads the table.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	rows, err := c.db.Query(ctx, `
		SELECT code, severity, count(*)::float8 FROM platform.alarms WHERE acknowledged_at IS NULL GROUP BY code, severity`)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.desc, err)
		return
	}
	var code, severity string
	var n float64
	if _, err := pgx.ForEachRow(rows, []any{&code, &severity, &n}, func() error {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, n, code, severity)
		return nil
	}); err != nil {
		ch <- prometheus.NewInvalidMetric(c.desc, err)
	}
}
