package order

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
)

func TestGetRemembersMissingOrder(t *testing.T) {
	t.Parallel()
	s := setup(t)
	no := ids.NewFor(1)
	for range 50 {
		if _, ok, err := s.Get(t.Context(), no); ok || err != nil {
			t.Fatalf("%v, %v", ok, err)
		}
	}
	// At most one query per second of the clock, however slow this machine is.
	if loads := testutil.ToFloat64(s.metrics.loads); loads > 10 {
		t.Errorf("50 reads of a missing order queried Postgres %.0f times", loads)
	}
	// A row that appears is found in the cache, even if its absence is remembered.
	m := grants(s.item(1), 1)
	m.Grants[0].No = no
	s.deliver(m)
	if _, ok, err := s.Get(t.Context(), no); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

// A query that fails is an error of every reader that waits for it, and of none an
// order that does not exist.
func TestFailedReadIsNoMissingOrder(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.db.Close()
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			if _, ok, err := s.Get(t.Context(), ids.NewFor(1)); ok || err == nil {
				t.Errorf("%v, %v", ok, err)
			}
		})
	}
	readers.Wait()
}

// TestOrdersThatWereArchivedComeBack: 0.10.0 moved old orders into orders.archive. The migration brings them back to
// shoppers and operators, and an instance of 0.10.0 moves no more.
func TestOrdersThatWereArchivedComeBack(t *testing.T) {
	t.Parallel()
	e := setupEdge(t)
	no := e.placed(e.item(5), 1).Grants[0].No
	e.exec(`UPDATE orders.orders SET status = 'closed'`)
	e.exec(`SELECT orders.ensure_archive(order_no) FROM orders.orders`)
	const move = `WITH moved AS (DELETE FROM orders.orders RETURNING *) INSERT INTO orders.archive SELECT * FROM moved`
	if _, err := e.db.Exec(t.Context(), move); err == nil || !strings.Contains(err.Error(), "orders are not archived") {
		t.Errorf("an order is archived: %v", err)
	}
	e.exec(`ALTER TABLE orders.archive DISABLE TRIGGER archive_is_closed`)
	e.exec(move)
	require.Equal(t, "orders beside the archive", e.count(`SELECT count(*) FROM orders.orders`), 0)

	raw, err := os.ReadFile("../migrations/01180_orders.sql")
	require.NoError(t, err)
	_, back, found := strings.Cut(string(raw), "FOR EACH ROW EXECUTE FUNCTION orders.archive_is_closed();")
	require.Equal(t, "the migration still has the statement before it", found, true)
	e.exec(back)
	require.Equal(t, "orders in the archive", e.count(`SELECT count(*) FROM orders.archive`), 0)
	require.Equal(t, "status for the shopper", e.statuses(no), []string{orderevent.StatusClosed})
	require.Equal(t, "rows for the operator", len(e.listPage(auth.Viewer, "order_no="+no.String()).Data), 1)
}
