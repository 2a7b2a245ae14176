package browse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/inventory"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/internal/wire"
)

// plan is the test's published plan. It counts its reads.
type plan struct {
	mu         sync.Mutex
	activities map[int64]Activity
	reads      int
	gone       bool // reading fails
}

func (p *plan) read() error {
	p.reads++
	if p.gone {
		return errors.New("the plan cannot be read")
	}
	return nil
}

func (p *plan) Activity(_ context.Context, id int64) (Activity, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, ok := p.activities[id]
	return a, ok, p.read()
}

func (p *plan) Activities(context.Context) ([]Activity, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.activities)), p.read()
}

func (p *plan) Detail(_ context.Context, item int64) (Detail, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Detail{Description: fmt.Sprintf("Item %d", item)}, true, p.read()
}

// window is a shop window on a real Redis and real stock, with its plan.
type window struct {
	*seckilltest.Bundle
	svc     *Service
	plan    *plan
	listing *seckilltest.Listing
	clock   *seckilltest.Clock
	rt      *httpx.Router
	items   map[int64]*catalogue.Item
	last    int64 // id
}

func setup(t testing.TB, change ...func(*Deps)) *window {
	t.Helper()
	w := &window{
		Bundle: seckilltest.New(t), plan: &plan{activities: map[int64]Activity{}}, listing: seckilltest.NewListing(t),
		clock: new(seckilltest.Clock), items: map[int64]*catalogue.Item{},
	}
	deps := Deps{
		Plan: w.plan, Redis: w.Redis, Stock: w.NewStock(), Catalogue: w.listing.Catalogue, Clock: w.clock,
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), CacheBytes: 512 << 10,
	}
	for _, f := range change {
		f(&deps)
	}
	w.svc = New(deps)
	w.rt = httpx.NewRouter(auth.NewTokens(seckilltest.Key, time.Now), deps.Log, "test", prometheus.NewRegistry())
	w.svc.Routes(w.rt.API)
	return w
}

// sale is an activity with one session and one item, by their ids as in answers.
type sale struct {
	id                      int64
	activity, session, item string
	stock                   inventory.Item
}

// publish plans a sale of ten units that opens after opensIn and lasts an hour.
func (w *window) publish(opensIn time.Duration, change ...func(*Activity)) sale {
	w.T.Helper()
	w.last++
	id := w.last
	opens := time.Now().Add(opensIn).Truncate(time.Millisecond)
	a := Activity{ID: id, Revision: 1, Sessions: []Session{{
		ID: wire.ID(id), ActivityID: wire.ID(id), ActivityName: "Sale", Name: "First", OpensAt: wire.Time(opens), ClosesAt: wire.Time(opens.Add(time.Hour)),
		ItemCount: 1, HumanCheck: "none",
		Items: []Item{{
			ID: wire.ID(id), Goods: wire.Goods{SKU: "phone", Title: "A phone", ListPrice: wire.Money{Amount: 20000, Currency: "CNY"}, SalePrice: wire.Money{Amount: 9900, Currency: "CNY"}},
			OnSale: 10, LimitPerUser: 2, PayWindowSeconds: 900,
		}},
	}}}
	for _, f := range change {
		f(&a)
	}
	s, item := &a.Sessions[0], &a.Sessions[0].Items[0]
	a.ForgetAt = time.Time(s.ClosesAt).Add(24 * time.Hour)
	it := &catalogue.Item{
		ID: id, SessionID: id, ActivityID: id, Total: item.OnSale, Unlimited: item.Unlimited, UserLimit: item.LimitPerUser, OnSale: true,
		OpensAt: time.Time(s.OpensAt), ClosesAt: time.Time(s.ClosesAt),
	}
	require.NoError(w.T, pg.InTx(w.T.Context(), w.DB, func(tx pgx.Tx) error {
		return w.Stock.Create(w.T.Context(), tx, inventory.NewStock{
			Item: it.Stock(), Total: it.Total, Unlimited: it.Unlimited, UserLimit: it.UserLimit, OpensAt: it.OpensAt, ClosesAt: it.ClosesAt,
		})
	}))
	w.items[id] = it
	w.put(a)
	key := wire.ID(id).String()
	return sale{id, key, key, key, it.Stock()}
}

// put replaces an activity's plan and makes it visible everywhere.
func (w *window) put(a Activity) {
	w.T.Helper()
	w.plan.mu.Lock()
	w.plan.activities[a.ID] = a
	w.plan.mu.Unlock()
	w.seen(a.ID)
}

// edit changes a sale's plan.
func (w *window) edit(s sale, change func(*Activity)) {
	w.T.Helper()
	w.plan.mu.Lock()
	a := w.plan.activities[s.id]
	w.plan.mu.Unlock()
	a.Revision++
	a.Sessions = slices.Clone(a.Sessions)
	for i := range a.Sessions {
		a.Sessions[i].Items = slices.Clone(a.Sessions[i].Items)
	}
	change(&a)
	w.put(a)
}

// drop deletes a sale.
func (w *window) drop(s sale) {
	w.T.Helper()
	w.plan.mu.Lock()
	delete(w.plan.activities, s.id)
	w.plan.mu.Unlock()
	delete(w.items, s.id)
	w.seen(s.id)
}

func (w *window) seen(activity int64) {
	w.T.Helper()
	w.listing.Show(slices.Collect(maps.Values(w.items))...)
	require.NoError(w.T, w.svc.Sync(w.T.Context(), activity))
}

// over applies an operator's termination to the plan.
func over(a *Activity) { a.Sessions[0].Over = true }

// get requests a page without a token.
func (w *window) get(path string, headers ...string) seckilltest.Reply {
	w.T.Helper()
	return seckilltest.Reply{Answer: httpxtest.Ask(w.T, w.rt, "", http.MethodGet, path, nil, headers...)}
}

// ok requests a page that must exist.
func (w *window) ok(path string) seckilltest.Reply {
	w.T.Helper()
	return w.gives(path, http.StatusOK)
}

// gives requests a page and requires a status, and texts of the page.
func (w *window) gives(path string, status int, texts ...string) seckilltest.Reply {
	w.T.Helper()
	r := w.get(path)
	r.Want(w.T, path, status, "", texts...)
	return r
}

// forget empties this instance's cached answers.
func (w *window) forget() {
	w.svc.cache.kept.Clear()
	w.svc.list.kept.Store(nil)
}

// load loads a sale's item into Redis.
func (w *window) load(s sale) {
	w.T.Helper()
	require.NoError(w.T, w.Stock.Load(w.T.Context(), s.stock.ID))
}

// flush deletes all data in Redis.
func (w *window) flush() {
	w.T.Helper()
	w.forget()
	require.NoError(w.T, w.Redis.FlushDB(w.T.Context()).Err())
}

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }
