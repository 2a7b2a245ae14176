package order

import (
	"bytes"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/inventory"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

// benchGrants is how many grants a message carries: the batch of a busy lane.
const benchGrants = 256

// rush makes messages of benchGrants grants each, every grant for a new user.
type rush struct {
	item *seckillevent.Batch
	user int64
}

func (r *rush) messages(n int) []*seckillevent.Batch {
	list := make([]*seckillevent.Batch, n)
	for i := range list {
		m := *r.item
		m.ID, m.Grants = ids.New(), make([]seckillevent.Grant, benchGrants)
		for j := range m.Grants {
			r.user++
			m.Grants[j] = seckillevent.Grant{No: ids.NewFor(r.user), User: r.user, Quantity: 1, Seq: r.user}
		}
		list[i] = &m
	}
	return list
}

// BenchmarkWriter measures the order writer's transaction, a thousand orders each,
// on stores that sync: stock rows locked, messages noted in the inbox, orders
// written, units deducted, events packed into the outbox. The baseline is COPY of
// pre-encoded rows into the same table, with its partitions and indexes, one
// transaction per thousand: the least work by which Postgres can store these
// orders. It does not lock or deduct, cannot be repeated, and publishes nothing.
func BenchmarkWriter(b *testing.B) {
	const fetch = 4 // messages that wait for a busy writer; more hardly lower the cost of an order
	db, rdb := pgtest.Durable(b)
	s := setupOn(b, db, rdb)
	r := rush{item: s.item(inventory.MaxUnits)}
	for _, side := range []struct {
		name    string
		prepare func() (work func() error)
	}{
		{"baseline", func() func() error {
			at, data := time.Now().UTC().Truncate(time.Microsecond), []byte(copyHead)
			for _, m := range r.messages(fetch) {
				for i := range m.Grants {
					entries := []entry{{grant: &m.Grants[i]}}
					data = appendRow(data, &ordersOf([]*seckillevent.Batch{m}, entries, orderevent.StatusPending, at)[0])
				}
			}
			data = append(data, copyTail...)
			return func() error {
				return pg.InTx(b.Context(), s.db, func(tx pgx.Tx) error {
					_, err := tx.Conn().PgConn().CopyFrom(b.Context(), bytes.NewReader(data), copyPending)
					return err
				})
			}
		}},
		{"ours", func() func() error {
			messages := make([]message, fetch)
			for i, m := range r.messages(fetch) {
				messages[i].batch = m
			}
			return func() error {
				_, err := s.writer.attempt(b.Context(), messages, optimistic, s.cfg.LockWait)
				return err
			}
		}},
	} {
		b.Run(side.name, func(b *testing.B) {
			s.exec(`TRUNCATE orders.orders CASCADE`) // both meet indexes of the same size
			began := r.user
			var work func() error
			perSecond(b, fetch*benchGrants, func() { work = side.prepare() }, func() {
				require.NoError(b, work())
			})
			if n := s.count(`SELECT count(*) FROM orders.orders`); n != int(r.user-began) {
				b.Fatalf("%d orders for %d grants", n, r.user-began)
			}
		})
	}
}

// perSecond runs work b.N times, each after an unmeasured prepare, and reports
// the orders per second.
func perSecond(b *testing.B, orders int, prepare, work func()) {
	b.Helper()
	var spent time.Duration
	for b.Loop() {
		b.StopTimer()
		prepare()
		b.StartTimer()
		began := time.Now()
		work()
		spent += time.Since(began)
	}
	b.ReportMetric(float64(orders)*float64(b.N)/spent.Seconds(), "orders/s")
}
