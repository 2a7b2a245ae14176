package preheat

import (
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/inventory"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilltest"
)

// instance is a shop with one preheat on it, and the items that the test plans.
type instance struct {
	*seckilltest.Bundle
	svc     *Service
	listing *seckilltest.Listing
	clock   *seckilltest.Clock
	items   []*catalogue.Item
}

func setup(t *testing.T, change ...func(*Deps)) *instance {
	t.Helper()
	i := &instance{Bundle: seckilltest.New(t), listing: seckilltest.NewListing(t), clock: new(seckilltest.Clock)}
	i.svc = i.another(change...)
	return i
}

// another is the preheat of one more process.
func (i *instance) another(change ...func(*Deps)) *Service {
	deps := Deps{
		DB: i.DB, Stock: i.NewStock(), Catalogue: i.listing.Catalogue, Clock: i.clock,
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	}
	for _, f := range change {
		f(&deps)
	}
	return New(deps)
}

// publish plans an item of ten units and shows it in the catalogue. Its preheat
// is due 30 minutes before it opens.
func (i *instance) publish(opensIn time.Duration) *catalogue.Item {
	i.T.Helper()
	now := time.Now().Truncate(time.Millisecond)
	id := int64(len(i.items)) + 1
	it := &catalogue.Item{
		ID: id, SessionID: id, ActivityID: id, Total: 10, UserLimit: 1, OnSale: true, PayWindow: 15 * time.Minute,
		PreheatAt: now.Add(opensIn - 30*time.Minute), OpensAt: now.Add(opensIn), ClosesAt: now.Add(opensIn + time.Hour),
	}
	i.sql(`WITH a AS (INSERT INTO seckill.activities (id, name, starts_at, ends_at, status) OVERRIDING SYSTEM VALUE
			VALUES ($1, 'a', $2, $3, 'running')),
		s AS (INSERT INTO seckill.sessions (id, activity_id, name, opens_at, closes_at) OVERRIDING SYSTEM VALUE
			VALUES ($1, $1, 's', $2, $3))
		INSERT INTO seckill.items (id, session_id, activity_id, sku, title, spec, image_url, list_price, sale_price, currency, stock, unlimited, load_wanted)
			OVERRIDING SYSTEM VALUE VALUES ($1, $1, $1, 'sku', 'A thing', '', '', 200, 100, 'CNY', 10, false, 1)`, id, it.OpensAt, it.ClosesAt)
	require.NoError(i.T, pg.InTx(i.T.Context(), i.DB, func(tx pgx.Tx) error {
		return i.Stock.Create(i.T.Context(), tx, inventory.NewStock{
			Item: it.Stock(), Total: it.Total, UserLimit: it.UserLimit, OpensAt: it.OpensAt, ClosesAt: it.ClosesAt,
		})
	}))
	i.items = append(i.items, it)
	i.listing.Show(i.items...)
	return it
}

// checked runs one check and waits for its Loads.
func (i *instance) checked() {
	i.svc.check(i.T.Context())
	i.svc.queue.workers.Wait()
}

// isReady reports whether the item is decidable.
func (i *instance) isReady(it *catalogue.Item) bool {
	i.T.Helper()
	ready, err := i.Stock.Ready(i.T.Context(), it.Stock())
	require.NoError(i.T, err)
	return ready
}

// state is the item's state in Redis.
func (i *instance) state(it *catalogue.Item) (inventory.State, bool) {
	i.T.Helper()
	st, ok, err := i.Stock.State(i.T.Context(), it.Stock())
	require.NoError(i.T, err)
	return st, ok
}

// epoch is the epoch of the item's last Load, 0 before the first.
func (i *instance) epoch(it *catalogue.Item) int64 {
	i.T.Helper()
	st, _ := i.state(it)
	return st.Epoch
}

// sql runs a statement.
func (i *instance) sql(statement string, args ...any) {
	i.T.Helper()
	pgtest.Exec(i.T, i.DB, statement, args...)
}

// raised are the alarms of a code.
func (i *instance) raised(code alarm.Code) []alarm.Alarm {
	i.T.Helper()
	l, err := alarm.List(i.T.Context(), i.DB, alarm.Filter{Code: code})
	require.NoError(i.T, err)
	return l
}

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }
