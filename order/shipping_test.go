package order

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/details"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

// delivered settles orders of users 1, 2, … and pays them, the last first.
func (e *edge) delivered(nos ...ids.ID) {
	e.t.Helper()
	for i, no := range slices.Backward(nos) {
		costs := e.costs(no) // before: there may be one connection
		e.inTx(func(tx pgx.Tx) error {
			in := details.Choices{Way: seckillevent.Delivery, Name: "王小明", Phone: "+8613800138000", Address: "人民路 1 号", Note: "轻放"}
			if err := details.Put(e.t.Context(), tx, no, int64(i)+1, &in); err != nil {
				return err
			}
			_, _, err := e.MarkPaid(e.t.Context(), tx, no, orderevent.PaidBy{PaymentNo: ids.New()}, costs)
			return err
		})
	}
}

// TestWhatIsToBeShipped: the list has what the shop has to send, in the order in which it was
// paid, page by page, and operators find an order by its recipient.
func TestWhatIsToBeShipped(t *testing.T) {
	t.Parallel()
	e := setupEdge(t, func(cfg *Config, _ *Deps) { cfg.CompleteAfter = 0 })
	no := numbers(e.placed(e.item(10), 1, 2, 3, 4, 5, 6))
	e.delivered(no[:5]...)
	e.exec(`UPDATE orders.orders SET handover = 'shipped' WHERE order_no = $1`, no[0])
	e.exec(`INSERT INTO orders.shipments (bucket, order_no, carrier, tracking_no) VALUES ($1, $2, '顺丰', 'SF1234567890')`, no[0].Bucket(), no[0])
	e.exec(`INSERT INTO orders.shipments (bucket, order_no, carrier, tracking_no) VALUES ($1, $2, '商家自送', '-')`, no[1].Bucket(), no[1])
	parcels, err := Reader{DB: e.deps.DB}.Parcels(t.Context(), no)
	require.NoError(t, err)
	require.Equal(t, "parcels", len(parcels), 2)
	require.Equal(t, "the carrier in each language, and the number", []any{parcels[no[0]].Carrier, parcels[no[0]].TrackingNo}, []any{[2]string{"SF Express", "顺丰速运"}, "SF1234567890"})
	require.Equal(t, "the number of a parcel without one", parcels[no[1]].TrackingNo, "")
	e.exec(`DELETE FROM orders.shipments WHERE bucket = $1 AND order_no = $2`, no[1].Bucket(), no[1])
	e.exec(`UPDATE orders.details SET name = '李雷', phone = '+8613900139000' WHERE order_no = $1`, no[4])
	e.searching(nil, booked{refunded: map[ids.ID]int64{no[0]: 5}, open: map[ids.ID]bool{no[2]: true}})
	var got []string
	cursor, pages := "", 0
	for ; pages == 0 || cursor != ""; pages++ {
		page := e.listPage(auth.Viewer, "to_ship=true&limit=2&cursor="+cursor)
		for _, r := range page.Data {
			got = append(got, r.OrderNo)
		}
		cursor = page.NextCursor
	}
	require.Equal(t, "to be shipped, the first paid first", got, []string{no[4].String(), no[3].String(), no[1].String()})
	for query, want := range map[string]int{
		"recipient=" + url.QueryEscape("李雷 "): 1, "recipient=" + url.QueryEscape("李"): 0, "phone_tail=8000": 4, "phone_tail=9000&recipient=" + url.QueryEscape("王小明"): 0, "phone_tail=9000&to_ship=true": 1,
		"order_nos=" + no[0].String() + "," + no[5].String(): 2, "order_nos=" + no[0].String() + "&to_ship=true": 0, "to_ship=true&user_id=2": 1,
	} {
		if found := e.listPage(auth.Operator, query).Data; len(found) != want {
			t.Errorf("%s finds %d orders, want %d", query, len(found), want)
		}
	}
	require.Equal(t, "searches in the audit log", e.count(`SELECT count(*) FROM platform.audit WHERE action = 'order.search' AND actor = 99 AND detail->>'recipient' IS NOT NULL AND detail::text NOT LIKE '%李%'`), 5)
	e.exec(`UPDATE orders.orders SET paid_at = paid_at - interval '400 days'`)
	e.keepsHouse() // and never completes anything
	require.Equal(t, "with --complete-after=0", e.statuses(no[:5]...), []string{"paid", "paid", "paid", "paid", "paid"})
	for query, want := range map[string]int{"recipient=x": http.StatusForbidden, "phone_tail=8000": http.StatusForbidden, "phone_tail=80": http.StatusUnprocessableEntity, "order_nos=7": http.StatusUnprocessableEntity} {
		if rec := e.get("/api/v1/admin/orders?"+query, 99, auth.Viewer); rec.Code != want {
			t.Errorf("%s as a viewer: %d %s", query, rec.Code, rec.Body)
		}
	}
	for role, want := range map[auth.Role]string{
		auth.Operator: `"details":{"way":"delivery","name":"王小明","phone":"+8613800138000","address":"人民路 1 号","note":"轻放"},"shipment":{"carrier":"顺丰","carrier_code":"SF","carrier_name":"SF Express"`,
		auth.Viewer:   `"details":{"way":"delivery","name":"王****","phone":"138****8000","address":"****","note":"****"}`,
	} {
		if body := e.get("/api/v1/admin/orders?parcels=true&order_no="+no[0].String(), 99, role).Body.String(); !strings.Contains(body, want) || !strings.Contains(body, `"refunded":{"amount":5,`) {
			t.Errorf("a parcel as %s reads it: %s", role, body)
		}
	}
}

// TestTimeCompletesWhatWasSent: an order that is to be sent is completed some time after it
// was, not after its payment, and one that was never noted as sent ninety days later, so that
// its address is erased.
func TestTimeCompletesWhatWasSent(t *testing.T) {
	t.Parallel()
	e := setupEdge(t, oneConnection(t), func(cfg *Config, _ *Deps) { cfg.CompleteAfter = 24 * time.Hour })
	no := numbers(e.placed(e.item(10), 1, 2, 3, 4, 5))
	e.delivered(no...)
	e.exec(`UPDATE orders.orders SET paid_at = paid_at - interval '25 hours'`)
	e.exec(`UPDATE orders.orders SET handover = 'shipped' WHERE order_no = ANY($1)`, no[:2])
	e.exec(`UPDATE orders.orders SET handover = NULL WHERE order_no = $1`, no[3]) // not handed over
	for i, n := range no[:2] {
		e.exec(`INSERT INTO orders.shipments (bucket, order_no, carrier, tracking_no, at) VALUES ($1, $2, 'SF', 'x', now() - $3 * interval '1 hour')`, n.Bucket(), n, 23+2*i)
	}
	e.exec(`UPDATE orders.orders SET paid_at = now() - interval '91 days 1 hour' WHERE order_no = ANY($1)`, []ids.ID{no[0], no[4]}) // one of them was sent at last
	e.exec(`UPDATE orders.orders SET paid_at = now() - interval '90 days 23 hours' WHERE order_no = $1`, no[2])
	e.inTx(func(tx pgx.Tx) error { return e.Forget(t.Context(), tx, 5) })
	for range 2 { // what the first completes, the second erases
		e.keepsHouse()
	}
	require.Equal(t, "sent 23 and 25 hours ago, not sent, nothing to send, not sent for 91 days", e.statuses(no...),
		[]string{"paid", "completed", "paid", "completed", "completed"})
	require.Equal(t, "addresses that are kept", e.count(`SELECT count(*) FROM orders.details WHERE address <> ''`), 4)
	require.Equal(t, "the history", e.count(`SELECT count(*) FROM orders.history WHERE order_no = $1 AND status = 'completed' AND reason = 'time'`, no[4]), 1)
	e.past(77, 20_000)
	e.exec(`UPDATE orders.orders SET handover = 'to_ship', paid_at = now() - interval '30 days' WHERE item_id = 77`)
	e.exec(`VACUUM ANALYZE orders.orders`)
	scanned, fetched := e.readBy(e.keepsHouse)
	if scanned > 50 || fetched > 200 {
		t.Errorf("beside 20,000 orders to be sent, completing scanned %d rows and fetched %d", scanned, fetched)
	}
}
