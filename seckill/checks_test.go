package seckill

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

// TestFunnel follows two units through the funnel.
func TestFunnel(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.publish(-time.Minute)
	path := "/api/v1/admin/items/" + s.item + "/funnel"
	r := d.do(http.StatusOK, http.MethodGet, path, nil)
	if books := r.body["books"].(map[string]any); r.body["loaded"] != false || books["total"] != 10.0 || books["available"] != 10.0 || books["difference"] != 0.0 {
		t.Errorf("before the load: %s", r.raw)
	}
	require.NoError(t, d.Stock.Load(t.Context(), s.stockItem(t, false).ID))
	require.NoError(t, d.Stock.Reserve(t.Context(), s.stockItem(t, false), 1, []inventory.Attempt{{User: 5, No: ids.NewFor(5), Quantity: 1}, {User: 6, No: ids.NewFor(6), Quantity: 1}}, &inventory.Decision{}))
	r = d.do(http.StatusOK, http.MethodGet, path, nil)
	books := r.body["books"].(map[string]any)
	if r.body["loaded"] != true || r.body["epoch"] != 1.0 || r.body["queued"] != 2.0 || r.body["attempts"] != 0.0 ||
		books["remaining"] != 8.0 || books["in_flight"] != 2.0 || books["difference"] != 0.0 {
		t.Errorf("with two units on their way: %s", r.raw)
	}
	for _, missing := range []string{"items/99999/funnel", "items/99999/funnel/live", "sessions/99999/funnel", "activities/99999/funnel"} {
		if r := d.as("viewer", http.MethodGet, "/api/v1/admin/"+missing, nil); r.status != 404 {
			t.Errorf("%s: %d %s", missing, r.status, r.raw)
		}
	}
}

// TestStockFollowsThePlan plants each kind of violation and expects Checks to
// report it.
func TestStockFollowsThePlan(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	check := d.svc.Checks()[0]
	a, b, c := d.publish(time.Hour), d.publish(time.Hour), d.publish(time.Hour)
	d.draft(time.Hour)
	d.do(http.StatusOK, http.MethodPost, "/api/v1/admin/items/"+a.item+"/stock", `{"add":5}`)
	if found, err := check.Run(t.Context()); err != nil || len(found) != 0 {
		t.Fatalf("all is well: %v %v", found, err)
	}
	d.sql(`DELETE FROM inventory.stock WHERE item_id = $1`, a.item)
	d.sql(`UPDATE inventory.stock SET total = 11, available = 11 WHERE item_id = $1`, b.item)
	d.sql(`DELETE FROM seckill.activities WHERE id = $1`, c.activity)
	found, err := check.Run(t.Context())
	require.NoError(t, err)
	said := fmt.Sprint(found)
	for item, want := range map[string]string{a.item: "no stock row", b.item: "10 units on sale; the stock row has 11", c.item: "not published"} {
		if len(found) != 3 || !strings.Contains(said, "item "+item) || !strings.Contains(said, want) {
			t.Errorf("%s of item %s is not in %s", want, item, said)
		}
	}
}

// TestExclusiveActivitiesShareNoUser plants live orders of one user in two
// exclusive activities, which the claim at the door prevents.
func TestExclusiveActivitiesShareNoUser(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	exclusive := func(activity, _, _ map[string]any) { activity["exclusive"] = true }
	a, b, later, open := d.publish(-time.Minute, exclusive), d.publish(-time.Minute, exclusive), d.publish(24*time.Hour, exclusive), d.publish(-time.Minute)
	terminated := d.publish(-time.Minute, exclusive)
	d.sql(`UPDATE seckill.activities SET status = 'running'`)
	order := func(user int64, s sale, status string) {
		t.Helper()
		d.sql(`INSERT INTO orders.orders (bucket, order_no, user_id, item_id, activity_id, session_id, epoch, quantity, unit_price, currency, title, status, pay_deadline)
			VALUES (5, $1, $2, $3, $4, $5, 1, 1, 9900, 'CNY', 'A phone', $6, now())`, ids.New(), user, s.item, s.activity, s.session, status)
	}
	order(1, a, "paid")
	order(1, open, "paid")
	order(1, later, "paid") // not at the same time
	order(2, a, "closed")
	order(2, b, "paid")
	order(3, a, "pending_payment")
	order(3, b, "refunding")
	order(6, a, "paid")
	d.sql(`UPDATE orders.orders SET reason = 'backup' WHERE user_id = 6`) // paid after the other one was placed
	order(6, b, "paid")
	order(4, terminated, "paid")
	order(4, b, "paid")
	order(5, terminated, "paid")
	d.sql(`UPDATE seckill.activities SET status = 'terminated', updated_at = clock_timestamp() WHERE id = $1`, terminated.activity)
	order(5, b, "paid") // after its end
	for _, c := range d.svc.Checks() {
		if c.ID != "I3" {
			continue
		}
		const said = "{user %d The user has live orders of the exclusive activities %s and %s.}"
		want := fmt.Sprintf("["+said+" "+said+"]", 3, a.activity, b.activity, 4, b.activity, terminated.activity)
		if found, err := c.Run(t.Context()); err != nil || fmt.Sprint(found) != want {
			t.Errorf("found %v, error %v, want %s", found, err, want)
		}
		return
	}
	t.Error("there is no such check")
}
