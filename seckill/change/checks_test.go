package change

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/plan"
)

// TestStockFollowsThePlan plants each kind of violation and expects Checks to
// report it.
func TestStockFollowsThePlan(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	check := plan.Checks(d.DB, d.Stock)[0]
	a, b, c := d.Publish(time.Hour), d.Publish(time.Hour), d.Publish(time.Hour)
	d.Draft(time.Hour)
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/items/"+a.Item+"/stock", `{"add":5}`)
	if found, err := check.Run(t.Context()); err != nil || len(found) != 0 {
		t.Fatalf("all is well: %v %v", found, err)
	}
	d.SQL(`DELETE FROM inventory.stock WHERE item_id = $1`, a.Item)
	d.SQL(`UPDATE inventory.stock SET total = 11, available = 11 WHERE item_id = $1`, b.Item)
	d.SQL(`DELETE FROM seckill.activities WHERE id = $1`, c.Activity)
	found, err := check.Run(t.Context())
	require.NoError(t, err)
	said := fmt.Sprint(found)
	for item, want := range map[string]string{a.Item: "no stock row", b.Item: "10 units on sale; the stock row has 11", c.Item: "not published"} {
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
	a, b, later, open := d.Publish(-time.Minute, exclusive), d.Publish(-time.Minute, exclusive), d.Publish(24*time.Hour, exclusive), d.Publish(-time.Minute)
	terminated := d.Publish(-time.Minute, exclusive)
	d.SQL(`UPDATE seckill.activities SET status = 'running'`)
	order := func(user int64, s seckilltest.Sale, status string) {
		t.Helper()
		d.SQL(`INSERT INTO orders.orders (bucket, order_no, user_id, item_id, activity_id, session_id, epoch, quantity, unit_price, currency, title, status, pay_deadline)
			VALUES (5, $1, $2, $3, $4, $5, 1, 1, 9900, 'CNY', 'A phone', $6, now())`, ids.New(), user, s.Item, s.Activity, s.Session, status)
	}
	order(1, a, "paid")
	order(1, open, "paid")
	order(1, later, "paid") // not at the same time
	order(2, a, "closed")
	order(2, b, "paid")
	order(3, a, "pending_payment")
	order(3, b, "refunding")
	order(6, a, "paid")
	d.SQL(`UPDATE orders.orders SET reason = 'backup' WHERE user_id = 6`) // paid after the other one was placed
	order(6, b, "paid")
	order(4, terminated, "paid")
	order(4, b, "paid")
	order(5, terminated, "paid")
	d.SQL(`UPDATE seckill.activities SET status = 'terminated', updated_at = clock_timestamp() WHERE id = $1`, terminated.Activity)
	order(5, b, "paid") // after its end
	for _, c := range plan.Checks(d.DB, d.Stock) {
		if c.ID != "I3" {
			continue
		}
		const said = "{user %d The user has live orders of the exclusive activities %s and %s.}"
		want := fmt.Sprintf("["+said+" "+said+"]", 3, a.Activity, b.Activity, 4, b.Activity, terminated.Activity)
		if found, err := c.Run(t.Context()); err != nil || fmt.Sprint(found) != want {
			t.Errorf("found %v, error %v, want %s", found, err, want)
		}
		return
	}
	t.Error("there is no such check")
}
