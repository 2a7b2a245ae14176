package seckill

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/plan"
	"stampede/seckill/rush"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// setup returns a shop with one instance of the module, and operators who use it.
func setup(t testing.TB) *seckilltest.Desk {
	t.Helper()
	d := seckilltest.NewDesk(seckilltest.New(t))
	cfg, quiet, metrics := DefaultConfig(), slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	cfg.CanPay = true
	items, err := catalogue.New(plan.NewPublished(cfg.Config, d.DB), quiet, metrics)
	require.NoError(t, err)
	grants := d.NewQueue(items, metrics)
	svc, err := New(cfg, Deps{
		Catalogue: items, Places: rush.NewPlaces(cfg.Rush, items, d.Stock, grants, d.Clock), Grants: grants, DB: d.DB, Redis: d.Redis, Bus: d.Bus,
		Stock: d.Stock, Outbox: seckilltest.Waker{}, Clock: d.Clock, Log: quiet, Metrics: metrics,
		Orders: d.Orders, SigningKey: seckilltest.Key,
	})
	require.NoError(t, err)
	svc.Routes(d.Router)
	return d
}
