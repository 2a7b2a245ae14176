package order

import (
	"sync"
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

// takeUp captures a late payment the way payment's callback does, and returns the
// order after it.
func (s *bundle) takeUp(no ids.ID) (o orderevent.Order, won bool) {
	s.t.Helper()
	amount := s.costs(no) // not inside, where it would wait for a second connection
	err := pg.InTx(s.t.Context(), s.db, func(tx pgx.Tx) (err error) {
		if o, won, err = s.MarkPaid(s.t.Context(), tx, no, orderevent.PaidBy{PaymentNo: ids.New()}, amount); err == nil && !won {
			o, won, err = s.Retake(s.t.Context(), tx, o, orderevent.PaidBy{PaymentNo: ids.New()})
		}
		return err
	})
	if err != nil {
		s.t.Error(err) // not Fatal: may run outside the test's goroutine
	}
	return o, won
}

// closed writes an order and closes it as timed out.
func (s *bundle) closed(b *seckillevent.Batch, user int64) ids.ID {
	s.t.Helper()
	no := s.placed(b, user).Grants[0].No
	s.close(no, user, orderevent.ReasonTimeout)
	return no
}

func (s *bundle) backup(b *seckillevent.Batch) int {
	return s.count(`SELECT backup FROM inventory.stock WHERE item_id = $1`, b.ItemID)
}

// Money for a closed order takes its units from the backup: the units that the
// closing put back on sale stay there.
func TestRetake(t *testing.T) {
	t.Parallel()
	s := setup(t)
	with := func(backup int32) func(*inventory.NewStock) {
		return func(n *inventory.NewStock) { n.Backup = backup }
	}
	b := s.item(5, with(1))
	first, second := s.closed(b, 1), s.closed(b, 2)
	o, won := s.takeUp(first)
	require.Equal(t, "the order", []any{won, o.Status, o.Reason, o.Version}, []any{true, orderevent.StatusPaid, orderevent.ReasonBackup, int32(3)})
	require.Equal(t, "available, backup", []int{int(s.available(b.ItemID)), s.backup(b)}, []int{5, 0})
	require.Equal(t, "event", s.events()[orderevent.SubjectPaid], []orderevent.Order{o})
	require.Equal(t, "history", s.count(`SELECT count(*) FROM orders.history WHERE order_no = $1 AND version = 3 AND status = 'paid' AND reason = 'backup'`, first), 1)

	refused := func(what string, no ids.ID, status string, b *seckillevent.Batch, backup int) {
		t.Helper()
		if o, won := s.takeUp(no); won || o.Status != status {
			t.Errorf("%s: %v, %s", what, won, o.Status)
		}
		require.Equal(t, what+": backup", s.backup(b), backup)
	}
	refused("a second capture", first, orderevent.StatusPaid, b, 0)
	refused("an empty backup", second, orderevent.StatusClosed, b, 0)

	b = s.item(5, with(3))
	no := s.closed(b, 1)
	s.placed(b, 1)
	refused("a user who bought again", no, orderevent.StatusClosed, b, 3)
	m := grants(b, 7)
	s.deliver(m)
	twice := grants(b, 7)
	s.deliver(twice)
	refused("a refused number", twice.Grants[0].No, orderevent.StatusRefused, b, 3)

	per := func(n *inventory.NewStock) { n.ActivityID, n.PerActivity, n.Backup = 900, true, 3 }
	b, other := s.item(5, per), s.item(5, per)
	no = s.closed(b, 1)
	s.placed(other, 1)
	refused("a user who bought another item of the activity", no, orderevent.StatusClosed, b, 3)
	// Of one item per activity the order itself is the one.
	again := s.closed(b, 2)
	_, won = s.takeUp(again)
	require.Equal(t, "taken up, and left in the backup", []any{won, s.backup(b)}, []any{true, 2})
	require.Equal(t, "events of paid orders", len(s.events()[orderevent.SubjectPaid]), 2)
	require.Equal(t, "recorded", s.count(`SELECT count(*) FROM inventory.retaken`), 2)
}

// A late payment whose shard has no backup takes another's, and does not wait in a circle
// with what locks the shards in their order, as borrowing does.
func TestRetakeLocksShardsInTheirOrder(t *testing.T) {
	t.Parallel()
	s := setup(t)
	b := s.item(5, func(n *inventory.NewStock) { n.Backup = 1 })
	no := s.closed(b, 1)
	pgtest.Exec(t, s.db, `UPDATE orders.orders SET shard = 1 WHERE order_no = $1`, no)
	pgtest.Exec(t, s.db, `INSERT INTO inventory.stock SELECT (jsonb_populate_record(s, '{"shard": 1, "total": 0, "available": 0, "backup": 0}')).*
		FROM inventory.stock s WHERE item_id = $1`, b.ItemID)
	borrows, err := s.db.Begin(t.Context())
	require.NoError(t, err)
	lock := func(shard int) {
		_, err := borrows.Exec(t.Context(), `SELECT FROM inventory.stock WHERE item_id = $1 AND shard = $2 FOR UPDATE`, b.ItemID, shard)
		require.NoError(t, err)
	}
	_, err = borrows.Exec(t.Context(), `SET LOCAL lock_timeout = 500`) // below deadlock_timeout
	require.NoError(t, err)
	lock(0)
	taken := make(chan bool)
	go func() {
		_, won := s.takeUp(no)
		taken <- won
	}()
	pgtest.Eventually(t, 30*time.Second, func() bool {
		return s.count(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`) > 0
	}, "the late payment waits")
	lock(1)
	require.NoError(t, borrows.Rollback(t.Context()))
	require.Equal(t, "taken up with another shard's backup", <-taken, true)
}

// Late payments, closings and new orders of one item at the same moment: each closed
// order is taken up once or not at all, and no unit is counted twice.
func TestRetakesAgainstTheSale(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const late, backup, buying = 12, 5, 12
	b := s.item(40, func(n *inventory.NewStock) { n.Backup = backup })
	var nos []ids.ID
	for user := range int64(late) {
		nos = append(nos, s.closed(b, user+1))
	}
	var mu sync.Mutex
	taken := 0
	var all sync.WaitGroup
	for _, no := range nos {
		for range 2 { // two captures of each
			all.Go(func() {
				_, won := s.takeUp(no)
				mu.Lock()
				defer mu.Unlock()
				if won {
					taken++
				}
			})
		}
	}
	all.Go(func() {
		for user := range int64(buying) {
			s.closed(b, 100+user)
			s.placed(b, 200+user)
		}
	})
	all.Wait()
	require.Equal(t, "taken up, left in the backup", []int{taken, s.backup(b)}, []int{backup, 0})
	require.Equal(t, "live orders", s.count(`SELECT count(*) FROM orders.orders WHERE status IN ('paid', 'pending_payment')`), backup+buying)
	require.Equal(t, "units available", int(s.available(b.ItemID)), 40-buying)
}
