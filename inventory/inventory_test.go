package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"stampede/inventory/keep"
	"stampede/inventory/stock"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) {
	pgtest.Main(m, func() error { return goleak.Find() })
}

// orders is a stand-in for the orders module: one table-like map per test, so that Load and the checks see live
// orders without importing order.
type orders struct {
	mu  sync.Mutex
	all map[ids.ID]*orderevent.Order
}

func (o *orders) put(item Item, a Attempt, epoch int64, status string) orderevent.Order {
	o.mu.Lock()
	defer o.mu.Unlock()
	row := &orderevent.Order{
		No: a.No, UserID: a.User, ItemID: item.ID, ActivityID: item.ActivityID, Shard: item.Shard, PerActivity: item.PerActivity,
		Epoch: epoch, Quantity: a.Quantity, Status: status, UpdatedAt: time.Now(),
	}
	o.all[a.No] = row
	return *row
}

func (o *orders) set(no ids.ID, status string) orderevent.Order {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all[no].Status = status
	o.all[no].UpdatedAt = time.Now()
	return *o.all[no]
}

func live(status string) bool {
	return status == orderevent.StatusPending || status == orderevent.StatusPaid
}

// of returns the item's orders that fit, as rows.
func (o *orders) of(itemID int64, fits func(*orderevent.Order) bool) (rows []orderevent.Order) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.all {
		if r.ItemID == itemID && fits(r) {
			rows = append(rows, *r)
		}
	}
	return rows
}

// inParts passes what of makes of rows to each in parts of at most partRows.
func inParts[T any](rows []orderevent.Order, of func(orderevent.Order) T, each func([]T) error) error {
	const partRows = 700
	for part := range slices.Chunk(rows, partRows) {
		var out []T
		for _, r := range part {
			out = append(out, of(r))
		}
		if err := each(out); err != nil {
			return err
		}
	}
	return nil
}

func (o *orders) live(itemID int64) []orderevent.Order {
	return o.of(itemID, func(r *orderevent.Order) bool { return live(r.Status) })
}

func (o *orders) closed(itemID int64) (last []orderevent.Order) {
	of, held := map[int64]orderevent.Order{}, map[int64]bool{}
	for _, r := range o.live(itemID) {
		held[r.UserID] = true
	}
	for _, r := range o.of(itemID, func(r *orderevent.Order) bool {
		return r.Status == orderevent.StatusClosed || r.Status == orderevent.StatusRefunded
	}) {
		if !held[r.UserID] && r.No.String() > of[r.UserID].No.String() {
			of[r.UserID] = r
		}
	}
	return slices.Collect(maps.Values(of))
}

func (o *orders) Live(_ context.Context, _ pgx.Tx, itemID int64, each func([]Held) error) error {
	return inParts(o.live(itemID), func(r orderevent.Order) Held {
		return Held{No: r.No, User: r.UserID, Quantity: r.Quantity, Paid: r.Status == orderevent.StatusPaid}
	}, each)
}

func (o *orders) Ended(_ context.Context, _ pgx.Tx, itemID int64, each func([]Tombstone) error) error {
	ended := o.of(itemID, func(r *orderevent.Order) bool { return !live(r.Status) && time.Since(r.UpdatedAt) < 4*time.Minute })
	return inParts(ended, func(r orderevent.Order) Tombstone {
		return Tombstone{No: r.No, Until: r.UpdatedAt.Add(4 * time.Minute)}
	}, each)
}

func (o *orders) Closed(_ context.Context, _ pgx.Tx, itemID int64, each func([]Held) error) error {
	return inParts(o.closed(itemID), func(r orderevent.Order) Held { return Held{No: r.No, User: r.UserID, Closed: true} }, each)
}

func (o *orders) Rehome(_ context.Context, _ pgx.Tx, itemID int64, shards int16) (map[int16]int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	units := map[int16]int64{}
	for _, r := range o.all {
		if r.ItemID == itemID {
			if r.Shard = HomeOf(r.No.Bucket(), int(shards)); live(r.Status) {
				units[r.Shard] += int64(r.Quantity)
			}
		}
	}
	return units, nil
}

func (o *orders) LiveUnits(context.Context) (map[int64]Units, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	sums := map[int64]Units{}
	for _, r := range o.all {
		u := sums[r.ItemID]
		switch r.Status {
		case orderevent.StatusPending:
			u.Held += int64(r.Quantity)
		case orderevent.StatusPaid:
			u.Sold += int64(r.Quantity)
		}
		if live(r.Status) {
			sums[r.ItemID] = u
		}
	}
	return sums, nil
}

func (o *orders) Statuses(_ context.Context, nos []ids.ID) (map[ids.ID]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	found := map[ids.ID]string{}
	for _, no := range nos {
		if r, ok := o.all[no]; ok {
			found[no] = r.Status
		}
	}
	return found, nil
}

func (o *orders) ChangedWithin(_ context.Context, within time.Duration) (map[int64][]int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	users := map[int64][]int64{}
	for _, r := range o.all {
		if r.Status != orderevent.StatusPending && time.Since(r.UpdatedAt) < within {
			users[r.ItemID] = append(users[r.ItemID], r.UserID)
		}
	}
	return users, nil
}

func (o *orders) EndedWithin(_ context.Context, nos []ids.ID, within time.Duration) (map[ids.ID]bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	recent := map[ids.ID]bool{}
	for _, no := range nos {
		if r, ok := o.all[no]; ok && stock.ReturnsLater(r.Status) && time.Since(r.UpdatedAt) < within {
			recent[no] = true
		}
	}
	return recent, nil
}

// quietBus is a bus that records broadcasts, and its queue of grants, which is empty and loses what is published, as if
// no order writer took it.
type quietBus struct {
	mu       sync.Mutex
	subjects []string
	done     func(upTo uint64) bool
}

func (b *quietBus) Broadcast(subject string, _ []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subjects = append(b.subjects, subject)
	return nil
}

func (b *quietBus) count(subject string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.subjects {
		if s == subject {
			n++
		}
	}
	return n
}

func (*quietBus) State(context.Context) (bus.QueueState, error) { return bus.QueueState{}, nil }

func (b *quietBus) Done(_ context.Context, _ int64, upTo uint64) (bool, error) {
	return b.done == nil || b.done(upTo), nil
}

func (*quietBus) Republish(context.Context, int64, []StaleHold) error { return nil }

// bundle is the service with its stores and stand-ins.
type bundle struct {
	*Service
	t      testing.TB
	db     *pgxpool.Pool
	rdb    *redis.Client
	bus    *quietBus
	orders *orders
	// metrics are those of the last instance.
	metrics *prometheus.Registry
}

func setup(t testing.TB) *bundle {
	t.Helper()
	return setupOn(t, pgtest.DB(t), pgtest.Redis(t))
}

// setupOn is setup on stores of the test's own.
func setupOn(t testing.TB, db *pgxpool.Pool, rdb *redis.Client) *bundle {
	t.Helper()
	b := &bundle{t: t, db: db, rdb: rdb, bus: &quietBus{}, orders: &orders{all: map[ids.ID]*orderevent.Order{}}}
	b.Service = b.instance()
	return b
}

// instance is another process on the same Postgres and Redis.
func (b *bundle) instance() *Service { b.t.Helper(); return b.on(b.rdb) }

// on is another process on the same Postgres.
func (b *bundle) on(rdb redis.UniversalClient) *Service {
	b.t.Helper()
	cfg := DefaultConfig()
	cfg.PublishDeadline = 20 * time.Millisecond
	cfg.LeaseTTL = 5 * time.Second
	b.metrics = prometheus.NewRegistry()
	s := New(cfg, Deps{DB: b.db, Redis: rdb, Bus: b.bus, Grants: b.bus, Holds: b.orders, Books: b.orders, Log: slog.New(slog.DiscardHandler), Metrics: b.metrics})
	s.store.Recheck = 30 * time.Millisecond
	return s
}

// onSale is an item that opened a minute ago.
func onSale(id int64, total int32) NewStock {
	return NewStock{
		Item: Item{ID: id, ActivityID: 7}, Total: total, UserLimit: 1, Rebuy: true,
		OpensAt: time.Now().Add(-time.Minute), ClosesAt: time.Now().Add(time.Hour),
	}
}

func (b *bundle) create(n NewStock) Item {
	b.t.Helper()
	b.inTx(func(tx pgx.Tx) error { return b.Create(b.t.Context(), tx, n) })
	return n.Item
}

func (b *bundle) loaded(n NewStock) (Item, int64) {
	b.t.Helper()
	item := b.create(n)
	b.load(item)
	return item, b.state(item).Epoch
}

func (b *bundle) load(item Item) {
	b.t.Helper()
	require.NoError(b.t, b.Load(b.t.Context(), item.ID))
}

func (b *bundle) inTx(fn func(tx pgx.Tx) error) {
	b.t.Helper()
	require.NoError(b.t, pg.InTx(b.t.Context(), b.db, fn))
}

func (b *bundle) state(item Item) State {
	b.t.Helper()
	st, ok, err := b.State(b.t.Context(), item)
	require.Equal(b.t, fmt.Sprint("state of item ", item.ID), fmt.Sprint(ok, err), "true <nil>")
	return st
}

func (b *bundle) reserve(item Item, epoch int64, attempts ...Attempt) Decision {
	b.t.Helper()
	var d Decision
	require.NoError(b.t, b.Reserve(b.t.Context(), item, epoch, attempts, &d))
	return d
}

// write turns a grant into an order, as the order writer does.
func (b *bundle) write(item Item, epoch int64, attempts ...Attempt) {
	b.t.Helper()
	var nos []ids.ID
	b.inTx(func(tx pgx.Tx) error {
		nos = nos[:0]
		for _, a := range attempts {
			if err := b.Deduct(b.t.Context(), tx, []Movement{{Key: Key{ItemID: item.ID, Shard: item.Shard}, Quantity: a.Quantity}}); err != nil {
				return err
			}
			b.orders.put(item, a, epoch, orderevent.StatusPending)
			nos = append(nos, a.No)
		}
		return nil
	})
	require.NoError(b.t, b.Persisted(b.t.Context(), Written{Item: item, Epoch: epoch, Nos: nos}))
}

// sell reserves and writes.
func (b *bundle) sell(item Item, epoch int64, attempts ...Attempt) {
	b.t.Helper()
	b.reserve(item, epoch, attempts...)
	b.write(item, epoch, attempts...)
}

// pay and close change an order in Postgres only; the event comes separately.
func (b *bundle) pay(no ids.ID) orderevent.Order { return b.orders.set(no, orderevent.StatusPaid) }

func (b *bundle) close(no ids.ID) orderevent.Order {
	b.t.Helper()
	var o orderevent.Order
	b.inTx(func(tx pgx.Tx) error {
		o = b.orders.set(no, orderevent.StatusClosed)
		return b.Return(b.t.Context(), tx, []Movement{{Key: Key{ItemID: o.ItemID, Shard: o.Shard}, Quantity: o.Quantity}})
	})
	return o
}

func one(user int64) Attempt { return Attempt{User: user, No: ids.NewFor(user), Quantity: 1} }

func only(t testing.TB, d Decision) Result {
	t.Helper()
	if d.Gate != Open || len(d.Results) != 1 {
		t.Fatalf("gate %v with %d results, want open with 1", d.Gate, len(d.Results))
	}
	return d.Results[0]
}

func itemOf(o orderevent.Order) Item {
	return Item{ID: o.ItemID, ActivityID: o.ActivityID, Shard: o.Shard, PerActivity: o.PerActivity}
}

// bring applies orders to Redis as a keeper does, once.
func (b *bundle) bring(item Item, orders ...orderevent.Order) error {
	b.t.Helper()
	hints := make([]keep.Hint, len(orders))
	for i := range orders {
		hints[i] = keep.HintOf(&orders[i])
	}
	_, err := b.ApplyHints(b.t.Context(), item, hints)
	return err
}

// deliver passes the module an event about orders.
func (b *bundle) deliver(subject string, orders ...orderevent.Order) error {
	b.t.Helper()
	return b.deliverTo(b.Service, subject, orders...)
}

// tell is deliver until the running keepers have applied the event.
func (b *bundle) tell(subject string, orders ...orderevent.Order) error {
	b.t.Helper()
	defer pgtest.Eventually(b.t, 30*time.Second, b.Idle, "the event to be applied")
	return b.deliver(subject, orders...)
}

func (b *bundle) deliverTo(s *Service, subject string, orders ...orderevent.Order) error {
	b.t.Helper()
	data, err := json.Marshal(orderevent.Changed{Orders: orders})
	require.NoError(b.t, err)
	for _, sub := range s.Subscriptions() {
		if sub.Filter == subject {
			return sub.Handle(b.t.Context(), bus.Msg{ID: ids.New(), Subject: subject, Data: data})
		}
	}
	b.t.Fatalf("%s has no subscription", subject)
	return nil
}

// mustBring is bring for an order whose item decides.
func (b *bundle) mustBring(o orderevent.Order) {
	b.t.Helper()
	require.NoError(b.t, b.bring(itemOf(o), o))
}
