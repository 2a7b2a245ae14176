package order

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/bus"
	"stampede/platform/ids"
	"stampede/platform/pg"
	"stampede/seckill/seckillevent"
)

// rush makes messages of benchGrants grants each for ever new users.
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

// BenchmarkWriter is the order writer from the fetched bytes to the ack, with
// Postgres, the order cache and the stock in Redis. BenchmarkSettle is its
// transaction alone, BenchmarkCopy what Postgres takes at most: the same rows
// by COPY into the same partitions and indexes, without stock, inbox, outbox or
// any answer to who was a duplicate.
func BenchmarkWriter(b *testing.B) {
	for _, fetch := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("orders=%d", fetch*benchGrants), func(b *testing.B) {
			s := setup(b)
			r := rush{item: s.item(10_000_000)}
			msgs := make([]bus.Msg, fetch)
			perSecond(b, fetch*benchGrants, func() {
				for i, m := range r.messages(fetch) {
					msgs[i] = envelope(b, uint64(i)+1, m.Encode(nil), m.ID).Msg
				}
			}, func() { s.write(b.Context(), nil, msgs) })
			if n := s.count(`SELECT count(*) FROM orders.orders`); n != int(r.user) {
				b.Fatalf("%d orders for %d grants", n, r.user)
			}
		})
	}
}

func BenchmarkSettle(b *testing.B) {
	for _, fetch := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("orders=%d", fetch*benchGrants), func(b *testing.B) {
			s := setup(b)
			r := rush{item: s.item(10_000_000)}
			var batches []*seckillevent.Batch
			perSecond(b, fetch*benchGrants, func() { batches = r.messages(fetch) }, func() {
				s.inTx(func(tx pgx.Tx) error {
					_, err := s.settle(b.Context(), tx, batches, hopeful)
					return err
				})
			})
		})
	}
}

func BenchmarkCopy(b *testing.B) {
	for _, fetch := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("orders=%d", fetch*benchGrants), func(b *testing.B) {
			s := setup(b)
			r := rush{item: s.item(10_000_000)}
			var rows [][]any
			perSecond(b, fetch*benchGrants, func() {
				rows = rows[:0]
				now := time.Now()
				for _, m := range r.messages(fetch) {
					for _, g := range m.Grants {
						rows = append(rows, []any{
							g.No.Bucket(), g.No, g.User, m.ItemID, m.ActivityID, m.SessionID, m.Shard, m.Epoch, g.Quantity,
							m.UnitPrice, m.Currency, m.Title, false, "pending_payment", now.Add(m.PayWindow), now, now,
						})
					}
				}
			}, func() {
				err := pg.InTx(b.Context(), s.db, func(tx pgx.Tx) error {
					_, err := tx.CopyFrom(b.Context(), pgx.Identifier{"orders", "orders"}, []string{
						"bucket", "order_no", "user_id", "item_id", "activity_id", "session_id", "shard", "epoch", "quantity",
						"unit_price", "currency", "title", "one_per_activity", "status", "pay_deadline", "created_at", "updated_at",
					}, pgx.CopyFromRows(rows))
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// perSecond runs work b.N times, each after an unmeasured prepare, and reports
// how many orders a second that makes.
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
