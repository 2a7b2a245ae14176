package order

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

// past fills the table with old orders: many orders of one item, paid long ago,
// by users who do not matter. Their numbers are minted in Postgres; any number
// will do.
func (s *bundle) past(item int64, orders int) {
	s.t.Helper()
	s.exec(`INSERT INTO orders.orders (bucket, order_no, user_id, item_id, activity_id, session_id, epoch, quantity, unit_price, currency, title, status, pay_deadline)
		SELECT i % 1024, gen_random_uuid(), i + 1000000, $1::bigint, 100 + $1::bigint, 8, 1, 1, 100, 'CNY', 'x', 'paid', now() FROM generate_series(1, $2::int) i`, item, orders)
	s.exec(`ANALYZE orders.orders`)
}

// readBy runs do and returns how many rows of orders Postgres read for it, by
// scans of whole partitions and by index. The pool has one connection, which
// can be made to report its statistics.
func (s *bundle) readBy(do func()) (scanned, fetched int) {
	s.t.Helper()
	figures := func() (scanned, fetched int) {
		s.exec(`SELECT pg_stat_force_next_flush()`)
		require.NoError(s.t, s.db.QueryRow(s.t.Context(), `SELECT sum(seq_tup_read)::int, sum(coalesce(idx_tup_fetch, 0))::int FROM pg_stat_user_tables WHERE schemaname = 'orders'`).Scan(&scanned, &fetched))
		return scanned, fetched
	}
	scannedBefore, fetchedBefore := figures()
	do()
	scanned, fetched = figures()
	return scanned - scannedBefore, fetched - fetchedBefore
}

// oneConnection gives the module a pool of a single connection.
func oneConnection(t *testing.T) func(*Config, *Deps) {
	t.Helper()
	return func(_ *Config, d *Deps) {
		cfg := d.DB.Config().Copy()
		cfg.MaxConns = 1
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		d.DB = pool
	}
}

// TestExpiryReadsOnlyDueOrders checks that the orders of past sales, whose number
// only grows, cost it nothing.
func TestExpiryReadsOnlyDueOrders(t *testing.T) {
	t.Parallel()
	const due, past = 300, 40_000
	s := setup(t, oneConnection(t))
	b := s.item(due)
	b.PayWindow = 0
	s.placed(b, usersUpTo(due)...)
	s.past(b.ItemID+1, past)
	var claimed []ids.ID
	scanned, fetched := s.readBy(func() {
		var err error
		claimed, err = s.ClaimDue(t.Context(), due)
		require.NoError(t, err)
	})
	require.Equal(t, "orders claimed", len(claimed), due)
	if scanned > 0 || fetched > 5*due {
		t.Errorf("claiming %d due orders scanned %d rows and fetched %d", due, scanned, fetched)
	}
	scanned, fetched = s.readBy(func() {
		require.Equal(t, "orders closed", len(s.closeClaimed(orderevent.ReasonTimeout, claimed...)), due)
	})
	if scanned > 0 || fetched > 5*due {
		t.Errorf("closing %d orders scanned %d rows and fetched %d", due, scanned, fetched)
	}
}

// TestErasureReadsOnlyOldDetails checks that the details and actions which are kept, whose
// number grows with the shop, cost its every minute nothing.
func TestErasureReadsOnlyOldDetails(t *testing.T) {
	t.Parallel()
	const orders, old = 20_000, 100
	s := setup(t, oneConnection(t))
	s.past(1, orders)
	s.exec(`INSERT INTO orders.details (bucket, order_no, user_id, name) SELECT bucket, order_no, user_id, '李雷' FROM orders.orders`)
	s.exec(`UPDATE orders.orders SET status = 'completed', updated_at = now() - interval '40 days' WHERE user_id <= 1000000 + $1`, old)
	s.exec(`INSERT INTO orders.external_references (bucket, order_no, user_id, metadata) SELECT bucket, order_no, user_id, '{"clerk": "李雷"}' FROM orders.orders`)
	s.exec(`INSERT INTO orders.acts (bucket, order_no, act_no, user_id, operator, action, text, version)
		SELECT bucket, order_no, gen_random_uuid(), user_id, 7, 'note', '李雷', 1 FROM orders.orders`)
	q, tables := orderdb.New(s.db), []string{"orders.details", "orders.external_references", "orders.acts"}
	for i, table := range tables {
		s.exec(`UPDATE `+table+` SET `+[]string{"updated_at", "updated_at", "at"}[i]+` = now() - interval '50 days' WHERE user_id <= 1000000 + $1`, old)
		s.exec(`ANALYZE ` + table)
	}
	erased := func(want int) {
		t.Helper()
		const keep = 30 * 24 * time.Hour
		for i, erase := range []func() (int64, error){
			func() (int64, error) {
				return q.EraseDetails(t.Context(), orderdb.EraseDetailsParams{Keep: keep, AtMost: houseLimit})
			},
			func() (int64, error) {
				return q.EraseExternalReferences(t.Context(), orderdb.EraseExternalReferencesParams{Keep: keep, AtMost: houseLimit})
			},
			func() (int64, error) {
				return q.EraseActs(t.Context(), orderdb.EraseActsParams{Keep: keep, AtMost: houseLimit})
			},
		} {
			scanned, fetched := s.readBy(func() {
				_, err := erase()
				require.NoError(t, err)
			})
			if scanned > 0 || fetched > 20*old {
				t.Errorf("erasing %d of %s scanned %d rows and fetched %d", old, tables[i], scanned, fetched)
			}
		}
		require.Equal(t, "details erased", s.count(`SELECT count(*) FROM orders.details WHERE erased_at IS NOT NULL AND name = ''`), want)
		require.Equal(t, "references erased", s.count(`SELECT count(*) FROM orders.external_references WHERE erased_at IS NOT NULL AND metadata = '{}'`), want)
		require.Equal(t, "actions erased", s.count(`SELECT count(*) FROM orders.acts WHERE erased_at IS NOT NULL AND text = ''`), want)
	}
	erased(old)
	s.exec(`UPDATE orders.orders SET status = 'closed' WHERE user_id = 1000000 + $1`, old+1)
	for _, table := range tables {
		s.exec(`UPDATE `+table+` SET forget = true WHERE user_id IN (1000000 + $1, 1000000 + $2)`, old+1, old+2) // the second is not over
	}
	erased(old + 1)
}

// TestChangesAreReadByTheirTime checks that what a comparison reads each minute does not
// grow with the orders of past sales.
func TestChangesAreReadByTheirTime(t *testing.T) {
	t.Parallel()
	s := setup(t, oneConnection(t))
	b := s.item(3)
	m := s.placed(b, 1, 2, 3)
	s.past(b.ItemID+1, 40_000)
	s.exec(`UPDATE orders.orders SET updated_at = now() - interval '1 day'`)
	s.exec(`VACUUM ANALYZE orders.orders`)
	s.pay(m.Grants[1].No)
	scanned, fetched := s.readBy(func() {
		changed, err := s.ChangedWithin(t.Context(), time.Minute)
		require.NoError(t, err)
		require.Equal(t, "changed", changed, map[int64][]int64{b.ItemID: {2}})
	})
	if scanned > 0 || fetched > 100 {
		t.Errorf("reading one change scanned %d rows and fetched %d", scanned, fetched)
	}
}

// TestMoreShardsMoveOneItemsOrders checks that a Load which gives an item more shards moves
// its orders, all that may still return or take units, and reads no other item's.
func TestMoreShardsMoveOneItemsOrders(t *testing.T) {
	t.Parallel()
	s := setup(t, oneConnection(t))
	b := s.item(5)
	m := s.placed(b, 1, 2, 3, 4)
	s.pay(m.Grants[1].No)
	s.close(m.Grants[2].No, 3, orderevent.ReasonTimeout)
	s.past(b.ItemID+1, 40_000)
	want := map[int16]int64{}
	for i, g := range m.Grants {
		if i != 2 {
			want[g.No.Bucket()%7] += int64(g.Quantity)
		}
	}
	scanned, fetched := s.readBy(func() {
		s.inTx(func(tx pgx.Tx) error {
			live, err := Reader{}.Rehome(t.Context(), tx, b.ItemID, 7)
			require.Equal(t, "live units by shard", live, want)
			return err
		})
	})
	if scanned > 0 || fetched > 200 {
		t.Errorf("moving four orders scanned %d rows and fetched %d", scanned, fetched)
	}
	require.Equal(t, "orders that are not where their users are",
		s.count(`SELECT count(*) FROM orders.orders WHERE item_id = $1 AND shard <> bucket % 7`, b.ItemID), 0)
}

// TestUnpaidOrdersAreReadByTheirDeadline checks that a page of those who are to be warned costs what it holds, however
// many orders share a deadline or are long over.
func TestUnpaidOrdersAreReadByTheirDeadline(t *testing.T) {
	t.Parallel()
	const unpaid, past, page = 500, 20_000, 100
	s := setup(t, oneConnection(t))
	b := s.item(unpaid)
	b.PayWindow = 10 * time.Minute
	s.placed(b, usersUpTo(unpaid)...)
	s.past(b.ItemID+1, past)
	s.exec(`UPDATE orders.orders SET pay_deadline = pay_deadline + interval '1 hour' WHERE status = 'pending_payment' AND user_id % 2 = 0`)
	s.exec(`VACUUM ANALYZE orders.orders`)
	var at time.Time
	var no ids.ID
	seen := map[ids.ID]bool{}
	for range unpaid/2/page + 1 {
		scanned, fetched := s.readBy(func() {
			orders, err := s.Unpaid(t.Context(), at, no, time.Now().Add(20*time.Minute), page)
			require.NoError(t, err)
			for _, o := range orders {
				at, no, seen[o.No] = o.PayDeadline, o.No, true
			}
		})
		if scanned > 0 || fetched > unpaid {
			t.Errorf("a page of %d scanned %d rows and fetched %d", page, scanned, fetched)
		}
	}
	require.Equal(t, "orders due within 20 minutes", len(seen), unpaid/2)
}
