package order

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

// phoneBook knows one user's phone.
type phoneBook struct{ user int64 }

const thePhone = "+8613800138000"

func (b phoneBook) Searched(_ context.Context, phone string) (int64, error) {
	if phone == thePhone {
		return b.user, nil
	}
	return 0, nil
}

func (b phoneBook) PhonesOf(_ context.Context, users []int64) (map[int64]string, error) {
	if slices.Contains(users, b.user) {
		return map[int64]string{b.user: thePhone}, nil
	}
	return nil, nil
}

// booked is a payment module that knows one payment.
type booked struct {
	payment, order ids.ID
	txn            string

	refunded map[ids.ID]int64
	open     map[ids.ID]bool
}

func (b booked) RefundsOf(context.Context, []ids.ID) (refunded map[ids.ID]int64, open map[ids.ID]bool, err error) {
	return b.refunded, b.open, nil
}

func (b booked) OrdersOfPayment(_ context.Context, no ids.ID) ([]ids.ID, error) {
	if no == b.payment {
		return []ids.ID{b.order}, nil
	}
	return nil, nil
}

func (b booked) OrdersOfTransaction(_ context.Context, txn string) ([]ids.ID, error) {
	if txn == b.txn {
		return []ids.ID{b.order}, nil
	}
	return nil, nil
}

// listed is a page of the operators' list.
type listed struct {
	Data []struct {
		OrderNo string             `json:"order_no"`
		SKU     string             `json:"sku"`
		Spec    string             `json:"spec"`
		Phone   string             `json:"phone"`
		PaidAt  string             `json:"paid_at"`
		PaidBy  *orderevent.PaidBy `json:"paid_by"`

		ExternalID string `json:"external_id"`
	}
	NextCursor string `json:"next_cursor"`
}

// listPage requests a page as a role.
func (e *edge) listPage(role auth.Role, query string) (page listed) {
	e.t.Helper()
	rec := e.get("/api/v1/admin/orders?"+query, 99, role)
	if rec.Code != http.StatusOK {
		e.t.Fatalf("%s: %d %s", query, rec.Code, rec.Body)
	}
	decode(e.t, rec.Body.Bytes(), &page)
	return page
}

// TestSearchByEachName finds one order by all that operators know it by, and in its row
// what they want to know about it.
func TestSearchByEachName(t *testing.T) {
	t.Parallel()
	e := setupEdge(t)
	b := e.item(10)
	m := e.placed(b, 1, 2, 3)
	no, payment := m.Grants[1].No, ids.NewFor(2)
	e.searching(phoneBook{user: 2}, booked{payment: payment, order: no, txn: "wx-42"})
	e.sales.items = map[int64]seckillevent.Sale{b.ItemID: {SKU: "A-1", Spec: "red"}}
	e.sales.opens, e.sales.closes = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	by := orderevent.PaidBy{PaymentNo: payment, Provider: "wechatpay", Method: "native", ProviderTxn: "wx-42"}
	o, _ := e.paidBy(no, by)
	require.Equal(t, "the order", o.Status, orderevent.StatusPaid)
	e.exec(`INSERT INTO orders.stores (name, address) VALUES ('s', 'a')`)
	e.exec(`INSERT INTO orders.details (bucket, order_no, user_id, way, store_id, pickup_code, pickup_digest)
		VALUES ($1, $2, 2, 'pickup', 1, '7K3M-Q9TD-X2HV', sha256('7K3MQ9TDX2HV'))`, no.Bucket(), no)
	for _, g := range m.Grants[:2] {
		e.exec(`INSERT INTO orders.external_references (bucket, order_no, user_id, external_id) VALUES ($1, $2, 2, 'SO/7')`, g.No.Bucket(), g.No)
	}
	at := func(minutes int) string {
		return url.QueryEscape(time.Now().Add(time.Duration(minutes) * time.Minute).Format(time.RFC3339))
	}
	for query, want := range map[string]int{
		"order_no=" + no.String(): 1, "payment_no=" + payment.String(): 1, "provider_txn=wx-42": 1, "pickup_code=7k3mq9tdx2hv": 1, "phone=" + url.QueryEscape(thePhone): 1,
		"payment_no=" + ids.NewFor(2).String(): 0, "provider_txn=wx-43": 0, "pickup_code=0000-0000-0000": 0, "phone=13900139000": 0,
		"phone=" + url.QueryEscape(thePhone) + "&user_id=3": 0, "provider_txn=wx-42&user_id=3": 0, "provider_txn=wx-42&order_no=" + m.Grants[0].No.String(): 0,
		"payment_no=" + payment.String() + "&provider_txn=wx-42&order_no=" + no.String(): 1, "payment_no=" + payment.String() + "&order_no=" + m.Grants[0].No.String(): 0,
		"external_id=SO%2F7": 2, "external_id=SO%2F7&limit=1": 2, "external_id=so/7": 0, "external_id=SO/7&provider_txn=wx-42": 1,
		"sku=A-1": 3, "sku=A-2": 0, "sku=A-1&item_id=9": 0, "sku=A-1&status=paid": 1, "status=paid": 1, "status=pending_payment": 2, "status=pending_payment&item_id=9": 0,
		"paid_from=" + at(-5): 1, "paid_until=" + at(-5): 0, "paid_from=" + at(-5) + "&paid_until=" + at(5): 1, "paid_from=" + at(-5) + "&status=completed": 0, "paid_from=" + at(-5) + "&user_id=2": 1,
		"updated_from=" + at(-5): 3, "updated_from=" + at(5): 0, "updated_until=" + at(-5): 0, "updated_from=" + at(-5) + "&updated_until=" + at(5): 3,
		"updated_from=" + at(-5) + "&status=paid": 1, "updated_from=" + at(-5) + "&paid_from=" + at(-5): 1, "updated_from=" + at(-5) + "&status=pending_payment&limit=1": 2,
		"updated_from=" + at(-5) + "&limit=1": 3,
	} {
		got, cursor, pages := 0, "", 0
		for ; pages == 0 || cursor != ""; pages++ {
			page := e.listPage(auth.Operator, query+"&cursor="+cursor)
			got, cursor = got+len(page.Data), page.NextCursor
		}
		if got != want || pages > max(want, 1) {
			t.Errorf("%s finds %d orders on %d pages, want %d", query, got, pages, want)
		}
	}
	for role, phone := range map[auth.Role]string{auth.Operator: thePhone, auth.Viewer: "138****8000"} {
		r := e.listPage(role, "order_no="+no.String()).Data[0]
		if r.SKU != "A-1" || r.Spec != "red" || r.Phone != phone || r.PaidAt == "" || r.PaidBy == nil || *r.PaidBy != by || r.ExternalID != "SO/7" {
			t.Errorf("the row as %s reads it: %+v, paid by %+v", role, r, r.PaidBy)
		}
	}
	for query, want := range map[string]string{
		"payment_no=7": "payment_no have 32 hex digits", "cursor=c5-" + no.String(): "cursor is not one", "cursor=n-" + no.String() + "&updated_from=" + at(0): "cursor is not one",
		"paid_from=" + at(5) + "&paid_until=" + at(0): "must be before", "updated_from=" + at(5) + "&updated_until=" + at(0): "must be before",
	} {
		if rec := e.get("/api/v1/admin/orders?"+query, 99, auth.Operator); rec.Code != http.StatusUnprocessableEntity || !strings.Contains(rec.Body.String(), want) {
			t.Errorf("%s: %d %s", query, rec.Code, rec.Body)
		}
	}
}

// TestPagesReadABoundedNumberOfOrders checks what each way of searching reads of a table
// of past orders: about a page where an index bounds the matches, and never more than
// the bound where matches are thinly spread.
func TestPagesReadABoundedNumberOfOrders(t *testing.T) {
	t.Parallel()
	const past, most = 12_000, 5_000
	e := setupEdge(t, oneConnection(t))
	e.past(e.item(10).ItemID, past)
	e.exec(`UPDATE orders.orders SET status = CASE WHEN user_id % 4 = 0 THEN 'pending_payment' ELSE 'completed' END,
		paid_at = CASE WHEN user_id % 4 = 0 THEN NULL ELSE now() - user_id * interval '1 second' END, updated_at = now() - user_id * interval '1 second', pay_deadline = now() + user_id * interval '1 second'`)
	e.exec(`UPDATE orders.orders SET status = 'refund_failed' WHERE user_id % 1000 = 1`)
	e.exec(`UPDATE orders.orders SET status = 'paid', handover = CASE WHEN user_id % 2000 > 1000 THEN 'shipped' ELSE 'to_ship' END WHERE user_id % 2 = 1 AND status = 'completed'`)
	e.exec(`VACUUM ANALYZE orders.orders`)
	e.exec(`INSERT INTO orders.details (bucket, order_no, user_id, way, name, phone) SELECT bucket, order_no, user_id, 'delivery', '收件人' || user_id % 4000, '+861380013' || lpad((user_id % 4000)::text, 4, '0') FROM orders.orders`)
	e.exec(`VACUUM ANALYZE orders.details`)
	e.searching(nil, booked{})
	// Numbers of the past do not tell their buckets, so that no order is found by them.
	for query, want := range map[string]int{"recipient=" + url.QueryEscape("收件人7"): 0, "phone_tail=0007": 0, "parcels=true&to_ship=true": 10} {
		scanned, fetched := e.readBy(func() {
			require.Equal(t, "orders of "+query, len(e.listPage(auth.Operator, "limit=10&"+query).Data), want)
		})
		if scanned > 0 || fetched > 400 {
			t.Errorf("a page of ?%s scanned %d rows and fetched %d", query, scanned, fetched)
		}
	}
	hour := url.QueryEscape(time.Now().Add(-400 * time.Hour).Format(time.RFC3339))
	middle := url.QueryEscape(time.Now().Add(-1_006_000 * time.Second).Format(time.RFC3339)) // of the changes and payments
	for _, query := range []string{
		"to_ship=true", "paid_until=" + middle, "updated_until=" + middle + "&status=completed", "", "status=completed", "status=refund_failed", "status=pending_payment", "user_id=1000007", "paid_from=" + hour, "updated_from=" + hour + "&status=completed", "updated_from=" + hour, "disputed=true",
	} {
		scanned, fetched := e.readBy(func() { e.listPage(auth.Viewer, "limit=10&"+query) })
		if scanned > 0 || fetched > 400 {
			t.Errorf("a page of ?%s scanned %d rows and fetched %d", query, scanned, fetched)
		}
	}
	cursor, pages := "", 0
	for ; pages == 0 || cursor != ""; pages++ {
		scanned, fetched := e.readBy(func() {
			page := e.listPage(auth.Viewer, "session_id=99&cursor="+cursor)
			if cursor = page.NextCursor; len(page.Data) > 0 {
				t.Errorf("orders of a session without any: %+v", page.Data)
			}
		})
		if scanned > 0 || fetched > most+500 {
			t.Errorf("an empty page scanned %d rows and fetched %d", scanned, fetched)
		}
	}
	require.Equal(t, "pages that lead through all orders", pages, past/most+1)
}
