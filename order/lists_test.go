package order

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestListsPageByCursor(t *testing.T) {
	t.Parallel()
	e := setupEdge(t)
	b, other := e.item(100), e.item(100)
	var mine []string
	for range 5 {
		m := e.placed(b, 1)
		mine = append([]string{m.Grants[0].No.String()}, mine...)
		e.close(m.Grants[0].No, 1, orderevent.ReasonCanceled)
	}
	e.placed(b, 2, 3)
	e.placed(other, 3)
	pages := func(path string, user int64, role auth.Role) (nos []string, requests int) {
		t.Helper()
		for cursor := ""; ; requests++ {
			rec := e.get(path+"&cursor="+cursor, user, role)
			var page struct {
				Data []struct {
					OrderNo string `json:"order_no"`
				}
				NextCursor *string `json:"next_cursor"` // present on every page
			}
			decode(t, rec.Body.Bytes(), &page)
			if rec.Code != http.StatusOK {
				t.Fatalf("%s: %d %s", path, rec.Code, rec.Body)
			}
			if page.NextCursor == nil || page.Data == nil {
				t.Fatalf("%s: no page: %s", path, rec.Body)
			}
			for _, o := range page.Data {
				nos = append(nos, o.OrderNo)
			}
			if cursor = *page.NextCursor; cursor == "" {
				return nos, requests + 1
			}
		}
	}
	got, requests := pages("/api/v1/orders?limit=2", 1, auth.Shopper)
	require.Equal(t, "own orders", got, mine)
	require.Equal(t, "requests", requests, 3)
	got, requests = pages("/api/v1/admin/orders?user_id=1&limit=3", 99, auth.Viewer)
	require.Equal(t, "one user's orders", got, mine)
	require.Equal(t, "pages of them", requests, 2)
	hour := func(from int) string { // relative to now, as in a query string
		return url.QueryEscape(time.Now().Add(time.Duration(from) * time.Hour).Format(time.RFC3339))
	}
	e.exec(`INSERT INTO orders.disputes (bucket, dispute_no, order_no, user_id, reason, status, outcome, waiting_since)
		SELECT bucket, gen_random_uuid(), order_no, user_id, 'x', CASE user_id WHEN 3 THEN 'answered' ELSE 'closed' END,
			CASE user_id WHEN 3 THEN '' ELSE 'no_refund' END, NULL FROM orders.orders WHERE user_id = 3 OR order_no = $1`, mine[0])
	for filter, want := range map[string]int{
		"&disputed=true": 2, "&disputed=true&item_id=2": 1, "&disputed=true&user_id=1": 0, "&disputed=false": 8,
		"&session_id=7": 8, "&session_id=8": 0, "&order_no=" + mine[1]: 1, "&order_no=" + mine[1] + "&user_id=3": 0, "&order_no=" + ids.NewFor(1).String(): 0,
		"&created_from=" + hour(-1): 8, "&created_until=" + hour(-1): 0, "&created_from=" + hour(1): 0, "&created_until=" + hour(1): 8, "&user_id=1&created_from=" + hour(-1) + "&created_until=" + hour(1): 5,
		"": 8, "&user_id=1": 5, "&item_id=1": 7, "&item_id=2": 1, "&activity_id=102": 1, "&status=closed": 5,
		"&status=pending_payment&user_id=3": 2, "&user_id=3&item_id=2": 1, "&user_id=77": 0,
	} {
		if got, _ := pages("/api/v1/admin/orders?limit=3"+filter, 99, auth.Viewer); len(got) != want {
			t.Errorf("filter %q gives %d orders, want %d", filter, len(got), want)
		}
	}
	backwards := "/api/v1/admin/orders?created_from=" + hour(1) + "&created_until=" + hour(0)
	for path, want := range map[string]int{
		backwards: 422, "/api/v1/orders?cursor=zzz": 422, "/api/v1/orders?limit=0": 422, "/api/v1/orders?limit=101": 422,
		"/api/v1/admin/orders?status=lost": 422, "/api/v1/admin/orders?item_id=-1": 422,
		"/api/v1/admin/orders?session_id=0": 422, "/api/v1/admin/orders?order_no=7": 422, "/api/v1/admin/orders?created_from=yesterday": 422,
		"/api/v1/admin/orders?cursor=zzz": 422, "/api/v1/admin/orders?limit=0": 422, "/api/v1/admin/orders?limit=101": 422,
	} {
		if rec := e.get(path, 99, auth.Viewer); rec.Code != want || !strings.Contains(rec.Body.String(), `"code":"invalid"`) {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
	require.Equal(t, "a shopper who reads all orders", e.get("/api/v1/admin/orders", 1, auth.Shopper).Code, http.StatusForbidden)
}

func TestListsLeaveConnectionsToOthers(t *testing.T) {
	t.Parallel()
	e := setupEdge(t)
	for range cap(e.reading) {
		e.reading <- struct{}{} // all slots for readers taken
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, _, err := e.EnterReading(gone)
	require.ErrorIs(t, err, errBusy)
	<-e.reading
	_, done, err := e.EnterReading(t.Context())
	require.NoError(t, err)
	done()
	if most := int(e.db.Config().MaxConns); cap(e.reading) >= most {
		t.Errorf("%d readers on %d connections", cap(e.reading), most)
	}
}

// TestListOfPastSaleStartsAtThatSale checks that a list narrowed by an item, a session or a time starts reading at its sale, and does not
// scan everything sold since.
func TestListOfPastSaleStartsAtThatSale(t *testing.T) {
	t.Parallel()
	const since = 5_000
	e := setupEdge(t, oneConnection(t))
	b := e.item(10)
	m := e.placed(b, 1, 2, 3)
	monthAgo := time.Now().AddDate(0, 0, -30)
	*e.sales = sales{known: map[string]bool{"item 1": true, "session 7": true, "activity 101": true}, opens: monthAgo.Add(-time.Hour), closes: monthAgo.Add(time.Hour)}
	var old ids.ID
	for _, g := range m.Grants { // numbers of that time
		old = g.No
		for i, ms := 0, g.No.Time().Add(-30*24*time.Hour).UnixMilli(); i < 6; i++ {
			old[i] = byte(ms >> (40 - 8*i))
		}
		e.exec(`UPDATE orders.orders SET order_no = $2, created_at = created_at - interval '30 days' WHERE order_no = $1`, g.No, old)
	}
	day := func(n int) string { return url.QueryEscape(time.Now().AddDate(0, 0, n).Format(time.RFC3339)) }
	other := e.item(10)
	e.past(other.ItemID, since)
	for filter, want := range map[string]int{
		"item_id=1": 3, "activity_id=101": 3, "item_id=1&activity_id=101": 3, "session_id=7": 3, "session_id=7&status=paid": 0, "order_no=" + old.String(): 1,
		"created_from=" + day(-31) + "&created_until=" + day(-29): 3, "created_until=" + day(-29) + "&limit=3": 3,
	} {
		scanned, fetched := e.readBy(func() {
			rec := e.get("/api/v1/admin/orders?"+filter, 99, auth.Viewer)
			if n := strings.Count(rec.Body.String(), `"order_no"`); rec.Code != http.StatusOK || n != want {
				t.Errorf("%s: %d, %d orders: %s", filter, rec.Code, n, rec.Body)
			}
		})
		if scanned+fetched > 200 {
			t.Errorf("%s: %d orders cost reading %d rows", filter, want, scanned+fetched)
		}
	}
}

// A list query that runs too long is canceled with an error that says how to
// narrow it, and its connection is free again.
func TestListTimeoutAsksToNarrow(t *testing.T) {
	t.Parallel()
	e := setupEdge(t, func(c *Config, _ *Deps) { c.ListTimeout = 100 * time.Millisecond })
	release := pgtest.Locked(e.t, e.db, `LOCK TABLE orders.orders IN ACCESS EXCLUSIVE MODE`)
	rec := e.get("/api/v1/admin/orders?status=refunded", 99, auth.Viewer)
	if rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), "narrow the list by from and to") || rec.Header().Get("Retry-After") == "" {
		t.Errorf("the operator's list: %d %s", rec.Code, rec.Body)
	}
	require.Equal(t, "the shopper's list", e.get("/api/v1/orders", 1, auth.Shopper).Code, http.StatusServiceUnavailable)
	release()
	pgtest.Eventually(t, 30*time.Second, func() bool {
		return e.get("/api/v1/admin/orders?status=refunded", 99, auth.Viewer).Code == http.StatusOK
	}, "the slot is free again")
}

// What a shopper missed may be longer than a page.
func TestChangedOwnReadsEveryPage(t *testing.T) {
	t.Parallel()
	e := setupEdge(t)
	no := e.placed(e.item(5), 1).Grants[0].No
	e.close(no, 1, orderevent.ReasonCanceled)
	e.exec(`INSERT INTO orders.orders SELECT (jsonb_populate_record(o, jsonb_build_object('updated_at', o.updated_at - n % 2 * interval '1 hour',
		'order_no', overlay(o.order_no::text PLACING lpad(to_hex(n), 8, '0') FROM 1 FOR 8)))).*
		FROM orders.orders o, generate_series(1, $2::int) n WHERE o.order_no = $1`, no, 2*changedPage+2)
	ctx := auth.Into(t.Context(), auth.Principal{UserID: 1, Role: auth.Shopper})
	changed, err := e.ChangedOwn(ctx, time.Now().Add(-30*time.Minute))
	require.NoError(t, err)
	require.Equal(t, "orders that changed", len(changed), changedPage+2)
}
