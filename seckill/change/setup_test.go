package change

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/platform/base/config"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/browse"
	"stampede/seckill/catalogue"
	"stampede/seckill/funnel"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/plan"
	"stampede/seckill/preheat"
	"stampede/seckill/readiness"
	"stampede/seckill/seckillevent"
)

// bundle is a test shop whose activities operators plan.
type bundle struct{ *seckilltest.Bundle }

func setup(t testing.TB) *bundle { t.Helper(); return &bundle{seckilltest.New(t)} }

// instance is one complete instance of the plan with operators using it.
type instance struct {
	*seckilltest.Desk
	svc     *Service
	items   *catalogue.Catalogue
	preheat *preheat.Service
}

func (y *bundle) instance(change ...func(*plan.Config, *Deps)) *instance {
	y.T.Helper()
	d := &instance{Desk: seckilltest.NewDesk(y.Bundle)}
	cfg, quiet, metrics := plan.NewConfig(config.Defaults[plan.Settings]()), slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	cfg.CanPay = true
	deps := Deps{DB: y.DB, Stock: y.NewStock(), Outbox: seckilltest.Waker{}, Clock: d.Clock, Log: quiet}
	for _, f := range change {
		f(&cfg, &deps)
	}
	var err error
	d.items, err = catalogue.New(plan.NewPublished(cfg, deps.DB), quiet, metrics)
	require.NoError(y.T, err)
	d.preheat = preheat.New(preheat.Deps{DB: deps.DB, Stock: deps.Stock, Catalogue: d.items, Clock: d.Clock, Log: quiet, Metrics: metrics})
	deps.Catalogue, deps.Browse = d.items, browse.New(browse.Deps{
		Plan: plan.NewPublished(cfg, deps.DB), Redis: y.Redis, Stock: deps.Stock, Catalogue: d.items, Clock: d.Clock, Log: quiet, Metrics: metrics,
		CacheBytes: 512 << 10,
	})
	if deps.Readiness == nil {
		deps.Readiness = readiness.New(cfg, readiness.Deps{DB: deps.DB, Clock: d.Clock})
	}
	deps.Readiness.Routes(d.Router.API)
	d.svc = New(cfg, deps)
	d.svc.Routes(d.Router.API)
	deps.Browse.Routes(d.Router.API)
	funnel.New(funnel.Deps{DB: deps.DB, Stock: deps.Stock, Catalogue: d.items, Clock: d.Clock, Log: quiet, Zone: cfg.Zone()}).Routes(d.Router.API)
	return d
}

// deliver passes the events in the outbox to the module's shared subscription,
// as the relay and the bus would.
func (d *instance) deliver() {
	d.T.Helper()
	rows, err := d.DB.Query(d.T.Context(), `SELECT id, payload FROM platform.outbox WHERE subject = $1 AND sent_at IS NULL`, seckillevent.SubjectChanged)
	require.NoError(d.T, err)
	defer rows.Close()
	for rows.Next() {
		var id ids.ID
		var payload []byte
		require.NoError(d.T, rows.Scan(&id, &payload))
		require.NoError(d.T, d.svc.Subscription().Handle(d.T.Context(), bus.Msg{ID: id, Subject: seckillevent.SubjectChanged, Data: payload}))
	}
	require.NoError(d.T, rows.Err())
}

// eventually waits for another goroutine's work.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	pgtest.Eventually(t, 30*time.Second, cond, what)
}

// forgetBrowse makes the browse answers cached by this instance expire.
func (d *instance) forgetBrowse() { d.Clock.Advance(2 * time.Second) }

// offPlan requires in how many places the stock rows differ from the plan.
func (d *instance) offPlan(what string, places int) {
	d.T.Helper()
	found, err := plan.Samples(d.DB, d.Stock)[0].Run(d.T.Context())
	if err != nil || len(found) != places {
		d.T.Errorf("%s: %v, %v", what, found, err)
	}
}

// leaves requires what fn records.
func (d *instance) leaves(what, want string, fn func()) {
	d.T.Helper()
	require.Equal(d.T, "what was left by "+what, d.Traced(fn).String(), want)
}

// nothing is what a refused or repeated action records.
const nothing = "[] and 0 events"

// statusOf are the statuses of problems by code.
var statusOf = map[string]int{"invalid": http.StatusUnprocessableEntity, "not-found": http.StatusNotFound}

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }
