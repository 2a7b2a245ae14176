package telemetry

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// Pools exports the state of the connection pools to Prometheus: one Postgres
// pool for each module's budget, and the Redis pool. The pools keep their own
// counters, so nothing is measured between scrapes.
type Pools struct {
	postgres map[string]*pgxpool.Pool // by module
	redis    redis.UniversalClient
}

// NewPools returns a collector.
func NewPools(postgres map[string]*pgxpool.Pool, rdb redis.UniversalClient) *Pools {
	return &Pools{postgres, rdb}
}

var (
	pgConnections = prometheus.NewDesc("stampede_postgres_connections",
		"Connections to Postgres by module and state: used, idle, opening.", []string{"module", "state"}, nil)
	pgLimit = prometheus.NewDesc("stampede_postgres_connections_limit",
		"A module's budget of connections to Postgres.", []string{"module"}, nil)
	pgWaits = prometheus.NewDesc("stampede_postgres_waits_total",
		"Times that a caller had to wait for a connection to Postgres, by module.", []string{"module"}, nil)
	pgWaited = prometheus.NewDesc("stampede_postgres_waited_seconds_total",
		"Time spent waiting for connections to Postgres, by module.", []string{"module"}, nil)

	redisConnections = prometheus.NewDesc("stampede_redis_connections",
		"Connections to Redis by state: used, idle.", []string{"state"}, nil)
	redisTimeouts = prometheus.NewDesc("stampede_redis_pool_timeouts_total",
		"Times that waiting for a free connection to Redis timed out.", nil, nil)
	redisStale = prometheus.NewDesc("stampede_redis_stale_connections_total",
		"Connections to Redis that were found broken and dropped.", nil, nil)
)

// Describe implements prometheus.Collector.
func (p *Pools) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{pgConnections, pgLimit, pgWaits, pgWaited, redisConnections, redisTimeouts, redisStale} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (p *Pools) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	for module, pool := range p.postgres {
		s := pool.Stat()
		gauge(pgConnections, float64(s.AcquiredConns()), module, "used")
		gauge(pgConnections, float64(s.IdleConns()), module, "idle")
		gauge(pgConnections, float64(s.ConstructingConns()), module, "opening")
		gauge(pgLimit, float64(s.MaxConns()), module)
		counter(pgWaits, float64(s.EmptyAcquireCount()), module)
		counter(pgWaited, s.EmptyAcquireWaitTime().Seconds(), module)
	}
	s := p.redis.PoolStats()
	gauge(redisConnections, float64(s.TotalConns-min(s.IdleConns, s.TotalConns)), "used")
	gauge(redisConnections, float64(s.IdleConns), "idle")
	counter(redisTimeouts, float64(s.Timeouts))
	counter(redisStale, float64(s.StaleConns))
}
