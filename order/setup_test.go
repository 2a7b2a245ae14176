package order

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"stampede/inventory"
	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

func TestMain(m *testing.M) {
	pgtest.RapidChecks(12) // each case of the writer is some thirty transactions
	pgtest.Main(m, func() error { return goleak.Find() })
}

// waker counts its wake-ups, and runs a check at each.
type waker struct {
	woken  atomic.Int64
	onWake func()
}

func (w *waker) Wake() {
	w.woken.Add(1)
	if w.onWake != nil {
		w.onWake()
	}
}

// bundle is the module with real neighbours: Postgres, Redis, NATS, inventory.
type bundle struct {
	*Service
	t     testing.TB
	db    *pgxpool.Pool
	rdb   redis.UniversalClient
	bus   *bus.Bus
	stock *inventory.Service
	waker *waker

	nextItem int64
}

func setup(t testing.TB, change ...func(*Config, *Deps)) *bundle {
	t.Helper()
	return setupOn(t, pgtest.DB(t), pgtest.Redis(t), change...)
}

// setupOn is setup on stores of the test's own.
func setupOn(t testing.TB, db *pgxpool.Pool, rdb redis.UniversalClient, change ...func(*Config, *Deps)) *bundle {
	t.Helper()
	b := bustest.Open(t)
	log := slog.New(slog.DiscardHandler)
	invCfg := inventory.DefaultConfig()
	invCfg.PublishDeadline = 10 * time.Millisecond // these tests have no hidden publisher; a Load need not wait
	stock := inventory.New(invCfg, inventory.Deps{DB: db, Redis: rdb, Bus: b, Grants: bustest.GrantsOf[inventory.StaleHold](b), Holds: Reader{}, Books: Reader{DB: db}, Log: log, Metrics: prometheus.NewRegistry()})
	cfg, w := DefaultConfig(), &waker{}
	cfg.CacheBytes = 1 << 20 // the race detector shadows all of it
	deps := Deps{DB: db, Redis: rdb, Bus: b, Grants: b.Queue(bustest.Grants().Name), Stock: stock, Queue: &line{}, Plan: &sales{}, Outbox: w, Log: log, Metrics: prometheus.NewRegistry()}
	for _, f := range change {
		f(&cfg, &deps)
	}
	s, err := New(cfg, deps)
	require.NoError(t, err)
	return &bundle{Service: s, t: t, db: deps.DB, rdb: deps.Redis, bus: b, stock: stock, waker: w}
}

// item puts an item with that many units on sale, in Postgres only: with epoch
// 0, as before its first Load.
func (s *bundle) item(units int32, change ...func(*inventory.NewStock)) *seckillevent.Batch {
	s.t.Helper()
	s.nextItem++
	n := inventory.NewStock{
		Item:  inventory.Item{ID: s.nextItem, ActivityID: 100 + s.nextItem},
		Total: units, UserLimit: 100, Rebuy: true, OpensAt: time.Now().Add(-time.Hour), ClosesAt: time.Now().Add(time.Hour),
	}
	for _, f := range change {
		f(&n)
	}
	s.inTx(func(tx pgx.Tx) error { return s.stock.Create(s.t.Context(), tx, n) })
	return &seckillevent.Batch{
		ItemID: n.ID, ActivityID: n.ActivityID, SessionID: 7, Shard: n.Shard, UnitPrice: 9900, Currency: "CNY",
		Title: "限量版跑鞋", PayWindow: 15 * time.Minute, PerActivity: n.PerActivity,
	}
}

func (s *bundle) inTx(fn func(tx pgx.Tx) error) {
	s.t.Helper()
	require.NoError(s.t, pg.InTx(s.t.Context(), s.db, fn))
}

// grants returns a message like b with a grant of one unit for each user.
func grants(b *seckillevent.Batch, users ...int64) *seckillevent.Batch {
	m := *b
	m.ID, m.Grants = ids.New(), nil
	for i, user := range users {
		m.Grants = append(m.Grants, seckillevent.Grant{No: ids.NewFor(user), User: user, Quantity: 1, Seq: int64(i) + 1})
	}
	return &m
}

// usersUpTo returns the users 1 … n.
func usersUpTo(n int) []int64 {
	users := make([]int64, n)
	for i := range users {
		users[i] = int64(i) + 1
	}
	return users
}

// again returns the same grants in a new message, as the hold sweeper sends
// them.
func again(b *seckillevent.Batch) *seckillevent.Batch {
	m := *b
	m.ID = ids.New()
	return &m
}

// sent is a message in the writer's hands.
type sent struct {
	bus.Msg
	acked *atomic.Int64
}

func envelope(t testing.TB, seq uint64, data []byte, id ids.ID) sent {
	t.Helper()
	acked := new(atomic.Int64)
	return sent{acked: acked, Msg: bus.Msg{
		ID: id, Subject: seckillevent.GrantsSubject(1), Data: data, Seq: seq, Attempt: 1,
		Ack: func() error { acked.Add(1); return nil },
		Nak: func(time.Duration) error { return errors.New("the writer never naks a message") },
	}}
}

// deliver hands messages to the writer as one fetch and requires that each is
// acknowledged.
func (s *bundle) deliver(batches ...*seckillevent.Batch) {
	s.t.Helper()
	msgs := make([]bus.Msg, len(batches))
	all := make([]sent, len(batches))
	for i, b := range batches {
		all[i] = envelope(s.t, uint64(i)+1, b.Encode(nil), b.ID)
		msgs[i] = all[i].Msg
	}
	s.writer.write(s.t.Context(), s.t.Context().Done(), msgs)
	for i := range all {
		require.Equal(s.t, "acknowledgements", all[i].acked.Load(), 1)
	}
}

// statuses reads "status" or "status/reason" of each number, "" without a row.
func (s *bundle) statuses(nos ...ids.ID) []string {
	s.t.Helper()
	rows, err := table.Many(s.t.Context(), s.db, nos)
	require.NoError(s.t, err)
	out := make([]string, len(nos))
	for i, no := range nos {
		if o, ok := rows[no]; ok {
			if out[i] = o.Status; o.Reason != "" {
				out[i] += "/" + o.Reason
			}
		}
	}
	return out
}

func numbers(b *seckillevent.Batch) []ids.ID {
	nos := make([]ids.ID, len(b.Grants))
	for i, g := range b.Grants {
		nos[i] = g.No
	}
	return nos
}

func (s *bundle) available(item int64) int32 {
	s.t.Helper()
	return pgtest.Read[int32](s.t, s.db, `SELECT sum(available)::int FROM inventory.stock WHERE item_id = $1`, item)
}

// events returns the orders in the outbox, per subject, in order.
func (s *bundle) events() map[string][]orderevent.Order {
	s.t.Helper()
	rows, err := s.db.Query(s.t.Context(), `SELECT subject, payload FROM platform.outbox ORDER BY id`)
	require.NoError(s.t, err)
	type row struct {
		Subject string
		Payload []byte
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	require.NoError(s.t, err)
	events := make(map[string][]orderevent.Order)
	for _, r := range list {
		c, err := orderevent.Decode(r.Payload)
		require.NoError(s.t, err)
		events[r.Subject] = append(events[r.Subject], c.Orders...)
	}
	return events
}

func (s *bundle) count(query string, args ...any) int {
	s.t.Helper()
	return pgtest.Read[int](s.t, s.db, query, args...)
}

// costs is what an order costs, 0 without a row.
func (s *bundle) costs(no ids.ID) int64 {
	s.t.Helper()
	return int64(s.count(`SELECT coalesce(sum(orders.amount(unit_price, quantity, freight, discount)), 0)::bigint FROM orders.orders WHERE order_no = $1`, no))
}

func (s *bundle) exec(query string, args ...any) {
	s.t.Helper()
	pgtest.Exec(s.t, s.db, query, args...)
}
