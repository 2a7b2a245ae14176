package funnel

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/platform/base/config"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/browse"
	"stampede/seckill/catalogue"
	"stampede/seckill/change"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/plan"
	"stampede/seckill/readiness"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// instance is one instance of the funnel, with the plan that it is about.
type instance struct {
	*seckilltest.Desk
	svc *Service
}

func setup(t testing.TB, with ...func(*instance, *Deps)) *instance {
	t.Helper()
	d := &instance{Desk: seckilltest.NewDesk(seckilltest.New(t))}
	quiet, metrics, cfg := slog.New(slog.DiscardHandler), prometheus.NewRegistry(), plan.NewConfig(config.Defaults[plan.Settings]())
	cfg.CanPay = true
	items, err := catalogue.New(plan.NewPublished(cfg, d.DB), quiet, metrics)
	require.NoError(t, err)
	shown := browse.New(browse.Deps{
		Plan: plan.NewPublished(cfg, d.DB), Redis: d.Redis, Stock: d.Stock, Catalogue: items, Clock: d.Clock, Log: quiet, Metrics: metrics, CacheBytes: 512 << 10,
	})
	change.New(cfg, change.Deps{
		DB: d.DB, Stock: d.Stock, Outbox: seckilltest.Waker{}, Catalogue: items, Browse: shown, Clock: d.Clock, Log: quiet,
		Readiness: readiness.New(cfg, readiness.Deps{DB: d.DB, Clock: d.Clock}),
	}).Routes(d.Router.API)
	deps := Deps{DB: d.DB, Stock: d.Stock, Catalogue: items, Clock: d.Clock, Log: quiet, Zone: cfg.Zone()}
	for _, f := range with {
		f(d, &deps)
	}
	d.svc = New(deps)
	d.svc.Routes(d.Router.API)
	return d
}

// raw gets an answer that is no JSON.
func (d *instance) raw(path string, headers ...string) string {
	d.T.Helper()
	return string(d.As(auth.Viewer, http.MethodGet, path, nil, headers...).Raw)
}
