package order

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/inventory"
	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

const day = 24 * time.Hour

// pastItem puts an item up whose sale ended 85 days ago; settle notes that it is settled.
func (s *bundle) pastItem(change ...func(*inventory.NewStock)) *seckillevent.Batch {
	s.t.Helper()
	return s.item(100, append(change, func(n *inventory.NewStock) {
		n.OpensAt, n.ClosesAt = time.Now().Add(-86*day), time.Now().Add(-85*day)
	})...)
}

func (s *bundle) settle(b *seckillevent.Batch) {
	s.t.Helper()
	s.exec(`INSERT INTO inventory.settled (item_id, epoch) SELECT item_id, epoch FROM inventory.stock WHERE item_id = $1`, b.ItemID)
}

// aged writes an order of a user that reached a status that long ago, and returns its number, which is of that time.
func (s *bundle) aged(b *seckillevent.Batch, user int64, status string, age time.Duration) ids.ID {
	s.t.Helper()
	was := s.placed(b, user).Grants[0].No
	no := was
	for i, ms := 0, time.Now().Add(-age).UnixMilli(); i < 6; i++ {
		no[i] = byte(ms >> (40 - 8*i))
	}
	s.exec(`UPDATE orders.orders SET order_no = $2, status = $3, created_at = created_at - $4::interval, updated_at = updated_at - $4::interval,
		pay_deadline = pay_deadline - $4::interval, paid_at = CASE WHEN $3::text IN ('paid', 'completed', 'refunded') THEN updated_at - $4::interval END WHERE order_no = $1`, was, no, status, age)
	return no
}

func (s *bundle) archivedNumbers() []ids.ID {
	s.t.Helper()
	rows, err := s.db.Query(s.t.Context(), `SELECT order_no FROM orders.archive ORDER BY order_no DESC`)
	require.NoError(s.t, err)
	nos, err := pgx.CollectRows(rows, pgx.RowTo[ids.ID])
	require.NoError(s.t, err)
	return nos
}

func (s *bundle) archive() {
	s.t.Helper()
	require.NoError(s.t, s.archiveOld(s.t.Context()))
}

// archiving lets orders move 80 days after their end.
func archiving(c *Config, _ *Deps) { c.ArchiveOrdersAfter, c.CompleteAfter = 80*day, 0 }

// TestArchiveTakesWhatEndedLongAgo: what may still change stays, and so does what a sale or its settlement may look up.
func TestArchiveTakesWhatEndedLongAgo(t *testing.T) {
	t.Parallel()
	s := setup(t, archiving)
	with := func(activity int64) func(*inventory.NewStock) {
		return func(n *inventory.NewStock) { n.ActivityID = activity }
	}
	b, unsettled, selling, beside := s.pastItem(), s.pastItem(), s.item(100, with(900)), s.pastItem(with(900))
	s.settle(b)
	s.settle(selling)
	s.settle(beside)
	var want []ids.ID
	for i, status := range []string{"completed", "closed", "refused", "refunded"} {
		want = append(want, s.aged(b, int64(i)+1, status, time.Duration(200-30*i)*day)) // of four months
	}
	slices.Reverse(want)
	for i, status := range []string{"pending_payment", "paid", "refunding", "refund_failed"} {
		s.aged(b, int64(i)+11, status, 100*day)
	}
	s.aged(b, 21, "closed", 79*day)
	changed, disputed := s.aged(b, 22, "completed", 100*day), s.aged(b, 23, "completed", 100*day)
	s.exec(`UPDATE orders.orders SET updated_at = now() - interval '1 day' WHERE order_no = $1`, changed)
	s.exec(`INSERT INTO orders.disputes (bucket, dispute_no, order_no, user_id, reason) VALUES ($1, gen_random_uuid(), $2, 23, 'x')`, disputed.Bucket(), disputed)
	s.aged(unsettled, 24, "closed", 100*day)
	s.aged(beside, 25, "closed", 100*day) // another item of its activity is on sale
	all, stay := s.count(`SELECT count(*) FROM orders.orders`), 9

	opening := s.item(1, func(n *inventory.NewStock) { n.OpensAt = time.Now().Add(5 * time.Minute) })
	s.archive()
	requireEqual(t, "archived around an opening", len(s.archivedNumbers()), 0)
	s.exec(`UPDATE inventory.stock SET opens_at = opens_at - interval '1 hour' WHERE item_id = $1`, opening.ItemID)
	s.archive()
	requireEqual(t, "archived", s.archivedNumbers(), want)
	requireEqual(t, "rows that stay, and all", []int{s.count(`SELECT count(*) FROM orders.orders`), s.count(`SELECT count(*) FROM orders.with_archive`)}, []int{stay, all})
	requireEqual(t, "counted", counter(t, s.metrics.archived), 4.0)
	for _, no := range want { // each in the partition of its month
		requireEqual(t, "its month", s.count(`SELECT count(*) FROM orders.archive_`+no.Time().UTC().Format("200601")+` WHERE order_no = $1`, no), 1)
	}

	// A walk that is longer than a transaction goes on where it was, and begins again after its end.
	s.exec(`INSERT INTO orders.orders (bucket, order_no, user_id, item_id, activity_id, session_id, epoch, quantity, unit_price, currency, title, status, pay_deadline, updated_at)
		SELECT ('x' || right(no::text, 3))::bit(12)::int & 1023, no, i + 1000000, $1, $2, 8, 1, 1, 100, 'CNY', 'x', CASE WHEN i <= $3::int THEN 'paid' ELSE 'closed' END, now(), now() - interval '200 days'
		FROM (SELECT i, (left(orders.first_number(now() - interval '300 days')::text, 14) || '7' || right(gen_random_uuid()::text, 21))::uuid AS no FROM generate_series(1, $3::int + 50) i) n`,
		b.ItemID, b.ActivityID, archiveLimit)
	s.archive()
	requireEqual(t, "of the many", len(s.archivedNumbers()), 54)
	requireEqual(t, "the walk begins again", s.archived, ids.ID{})
	s.cfg.ArchiveOrdersAfter = 0
	s.exec(`UPDATE orders.orders SET status = 'closed' WHERE status = 'paid'`)
	s.archive()
	requireEqual(t, "never", len(s.archivedNumbers()), 54)
}

// beforeArchive does something before a query of the archive.
type beforeArchive struct {
	orderdb.DBTX
	do func()
}

func (b beforeArchive) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if strings.Contains(sql, "orders.archive") {
		b.do()
	}
	return b.DBTX.Query(ctx, sql, args...)
}

// TestOrderThatComesBackIsListed: it was in the archive at the first look and among the others at the second.
func TestOrderThatComesBackIsListed(t *testing.T) {
	t.Parallel()
	s := setup(t, archiving)
	b := s.pastItem()
	s.settle(b)
	no := s.aged(b, 1, "closed", 100*day)
	s.archive()
	requireEqual(t, "archived", s.archivedNumbers(), []ids.ID{no})
	comesBack := func() {
		if err := pg.InTx(t.Context(), s.db, func(tx pgx.Tx) error { _, err := lock(t.Context(), tx, no); return err }); err != nil {
			t.Error(err)
		}
	}
	last := ids.ID(bytes.Repeat([]byte{0xff}, len(no)))
	rows, err := readOwn(t.Context(), beforeArchive{s.db, comesBack}, orderdb.OrdersOfUserParams{Bucket: no.Bucket(), UserID: 1, Before: last, Most: 10})
	if err != nil || len(rows) != 1 || rows[0].OrderNo != no {
		t.Errorf("the shopper's list has %v, %v, want %s", rows, err, no)
	}
}

// TestArchivedOrdersAreReadLikeOthers: by number, in the shopper's list, in every walk of the operators' search, of which
// none reads a month that its numbers cannot lie in.
func TestArchivedOrdersAreReadLikeOthers(t *testing.T) {
	t.Parallel()
	e := setupEdge(t, archiving, oneConnection(t))
	var nos []ids.ID // the newest first
	item := func() *seckillevent.Batch { b := e.pastItem(); e.settle(b); return b }
	for i := range 6 {
		nos = append(nos, e.aged(item(), int64(1+i%2), []string{"completed", "closed"}[i%2], time.Duration(90+31*i)*day))
	}
	e.exec(`INSERT INTO orders.details (bucket, order_no, user_id, name, updated_at) VALUES ($1, $2, 1, '李雷', now() - interval '100 days')`, nos[2].Bucket(), nos[2])
	live := e.aged(item(), 1, "paid", 150*day) // between the archived ones
	e.archive()
	requireEqual(t, "archived", e.archivedNumbers(), nos)
	requireEqual(t, "statuses", e.statuses(nos...), []string{"completed", "closed", "completed", "closed", "completed", "closed"})
	known, err := e.Statuses(t.Context(), nos[:2])
	require.NoError(t, err)
	requireEqual(t, "known", known, map[ids.ID]string{nos[0]: "completed", nos[1]: "closed"})
	for _, path := range []string{"/api/v1/orders/" + nos[2].String(), "/api/v1/orders/" + nos[2].String() + "/document"} {
		if rec := e.get(path, 1, auth.Shopper); rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), `"status":"completed"`) {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
	if rec := e.get("/api/v1/orders?limit=3", 1, auth.Shopper); strings.Index(rec.Body.String(), live.String()) < strings.Index(rec.Body.String(), nos[0].String()) || !strings.Contains(rec.Body.String(), live.String()) {
		t.Errorf("the shopper's list: %d %s", rec.Code, rec.Body)
	}

	ago := func(days int) string {
		return url.QueryEscape(time.Now().Add(-time.Duration(days) * day).Format(time.RFC3339))
	}
	partitions := e.count(`SELECT count(*) FROM pg_inherits WHERE inhparent = 'orders.archive'::regclass`)
	if partitions < 6 {
		t.Fatalf("the archive has %d months", partitions)
	}
	scans := func() int {
		e.exec(`SELECT pg_stat_force_next_flush()`)
		return e.count(`SELECT count(*) FROM pg_stat_user_tables WHERE relname LIKE 'archive_2%' AND idx_scan + seq_scan > 0`)
	}
	for filter, want := range map[string]struct {
		orders []ids.ID
		months int // that the query may read
	}{
		"limit=100":                            {append([]ids.ID{nos[0], nos[1], live}, nos[2:]...), partitions},
		"user_id=2":                            {[]ids.ID{nos[1], nos[3], nos[5]}, partitions},
		"status=closed":                        {[]ids.ID{nos[1], nos[3], nos[5]}, partitions},
		"paid_from=" + ago(300):                {[]ids.ID{nos[0], live, nos[2], nos[4]}, partitions},
		"updated_from=" + ago(130):             {nos[:2], partitions},
		"order_no=" + nos[3].String():          {nos[3:4], 1},
		"from=" + ago(91):                      {nos[:1], 2},
		"from=" + ago(160) + "&to=" + ago(130): {[]ids.ID{live, nos[2]}, 3},
		"from=" + ago(160) + "&to=" + ago(130) + "&status=completed": {nos[2:3], 3},
		"from=" + ago(160) + "&to=" + ago(130) + "&user_id=1":        {[]ids.ID{live, nos[2]}, 3},
	} {
		e.exec(`SELECT pg_stat_reset()`)
		page := e.listPage(auth.Viewer, filter)
		var got []ids.ID
		for _, o := range page.Data {
			no, _ := ids.Parse(o.OrderNo)
			got = append(got, no)
		}
		if !strings.HasPrefix(filter, "paid") && !strings.HasPrefix(filter, "updated") { // those are in the order of time
			requireEqual(t, filter, got, want.orders)
		} else if len(got) != len(want.orders) {
			t.Errorf("%s: %v, want %v", filter, got, want.orders)
		}
		n := scans()
		if n > want.months { // what Postgres counted for an earlier page may arrive after the reset, once
			e.exec(`SELECT pg_stat_reset()`)
			e.listPage(auth.Viewer, filter)
			n = scans()
		}
		if n > want.months {
			t.Errorf("%s reads %d months, want at most %d", filter, n, want.months)
		}
	}
	if page := e.listPage(auth.Viewer, "limit=2"); page.NextCursor == "" || len(e.listPage(auth.Viewer, "limit=100&cursor="+page.NextCursor).Data) != 5 {
		t.Errorf("the page behind %s is not the rest", page.NextCursor)
	}
	e.keepsHouse()
	requireEqual(t, "details that are not erased", e.count(`SELECT count(*) FROM orders.details WHERE name <> ''`), 0)
}

// TestArchivedOrderReturnsToChange: what is to change an archived order finds it, and it comes back with the change alone.
func TestArchivedOrderReturnsToChange(t *testing.T) {
	t.Parallel()
	s := setup(t, archiving)
	b := s.pastItem(func(n *inventory.NewStock) { n.Backup = 5 })
	s.settle(b)
	done, closed, again := s.aged(b, 1, "completed", 100*day), s.aged(b, 2, "closed", 100*day), s.aged(b, 2, "completed", 99*day)
	before, err := s.LiveUnits(t.Context())
	require.NoError(t, err)
	s.archive()
	requireEqual(t, "archived", len(s.archivedNumbers()), 3)
	units, err := s.LiveUnits(t.Context())
	require.NoError(t, err)
	requireEqual(t, "units of archived orders are sold", units, before)

	if err := pg.InTx(t.Context(), s.db, func(tx pgx.Tx) error { _, err := s.Payable(t.Context(), tx, done, 1); return err }); err == nil || !strings.Contains(fmt.Sprint(err), "waits for payment") {
		t.Errorf("paying an archived order: %v", err)
	}
	if o, won := s.takeUp(closed); won || o.Status != orderevent.StatusClosed {
		t.Errorf("late money for an archived order: %v, %s", won, o.Status)
	}
	requireEqual(t, "what changes nothing brings nothing back", len(s.archivedNumbers()), 3)

	available := s.available(b.ItemID)
	s.inTx(func(tx pgx.Tx) error {
		if _, err := s.LockForRefund(t.Context(), tx, done, true); err != nil {
			return err
		}
		for _, to := range []string{orderevent.StatusRefunding, orderevent.StatusRefunded} {
			if _, ok, err := s.MoveRefunding(t.Context(), tx, done, to, false, "x"); err != nil || !ok {
				return fmt.Errorf("%v, %w", ok, err)
			}
		}
		return nil
	})
	requireEqual(t, "refunded", s.statuses(done), []string{"refunded"})
	requireEqual(t, "archived since", s.archivedNumbers(), []ids.ID{again, closed})
	requireEqual(t, "its units are back", s.available(b.ItemID), available+1)

	// Brought back, the closed order is still not taken up again: the archive has what its user bought afterwards.
	s.inTx(func(tx pgx.Tx) error { _, err := lockAny(t.Context(), tx, closed); return err })
	requireEqual(t, "brought back", s.archivedNumbers(), []ids.ID{again})
	if o, won := s.takeUp(closed); won || o.Status != orderevent.StatusClosed {
		t.Errorf("late money beside an archived order: %v, %s", won, o.Status)
	}
	s.archive()
	requireEqual(t, "archived again", s.archivedNumbers(), []ids.ID{again, closed})
	s.aged(b, 2, "paid", 98*day)
	requireViolation(t, s.violations(s.Checks(), "I3"), fmt.Sprintf("item %d: User 2 has 2 live orders", b.ItemID))
}

// TestArchiveAndChangeMeet: whichever comes first, the other does not lose the order.
func TestArchiveAndChangeMeet(t *testing.T) {
	t.Parallel()
	s := setup(t, archiving)
	b := s.pastItem()
	s.settle(b)
	no := s.aged(b, 1, "completed", 100*day)
	s.inTx(func(tx pgx.Tx) error {
		if _, err := lockAny(t.Context(), tx, no); err != nil {
			return err
		}
		s.archive() // passes the locked row
		return nil
	})
	requireEqual(t, "archived though locked", len(s.archivedNumbers()), 0)

	moving, err := s.db.Begin(t.Context())
	require.NoError(t, err)
	if _, err := moving.Exec(t.Context(), `SELECT orders.ensure_archive($1)`, no); err != nil {
		t.Fatal(err)
	}
	if _, err := moving.Exec(t.Context(), `WITH moved AS (DELETE FROM orders.orders RETURNING *) INSERT INTO orders.archive SELECT * FROM moved`); err != nil {
		t.Fatal(err)
	}
	locked := make(chan error, 1)
	go func() {
		locked <- pg.InTx(context.WithoutCancel(t.Context()), s.db, func(tx pgx.Tx) error { _, err := lockAny(t.Context(), tx, no); return err })
	}()
	pgtest.Eventually(t, 10*time.Second, func() bool {
		return s.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	}, "the change waits for the move")
	require.NoError(t, moving.Commit(t.Context()))
	require.NoError(t, <-locked)
	requireEqual(t, "left in the archive", len(s.archivedNumbers()), 0)
}
