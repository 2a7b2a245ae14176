package coupon

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/coupon/internal/coupondb"
	"stampede/order/couponevent"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// A recalled coupon serves no further order: one that is locked pays for its order or
// is gone with it, and what is issued afterwards is valid.
func TestRecalledCouponsServeNoFurtherOrder(t *testing.T) {
	t.Parallel()
	s := setup(t)
	issue := func(kind, body string) {
		t.Helper()
		s.must("200", 9, auth.Operator, http.MethodPost, "admin/coupons/"+kind+"/issue", body)
	}
	kind := s.kind(terms(`"per_user":3`))
	issue(kind, `{"user_ids":["5"],"each":2}`)
	held := func(want ...string) (nos []string) {
		t.Helper()
		var got []string
		for _, c := range s.must("200", 9, auth.Viewer, http.MethodGet, "admin/coupons/"+kind+"/issued?user_id=5", "")["data"].([]any) {
			got, nos = append(got, c.(map[string]any)["status"].(string)), append(nos, c.(map[string]any)["coupon_no"].(string))
		}
		require.Equal(t, "the user's coupons", got, want)
		return nos
	}
	order := func() orderevent.Order {
		t.Helper()
		o := orderevent.Order{No: ids.NewFor(5), UserID: 5, ItemID: 1, ActivityID: 1, Quantity: 1, UnitPrice: 20_000, Currency: "CNY", Status: orderevent.StatusPending}
		s.exec(`INSERT INTO orders.orders (bucket, order_no, user_id, item_id, activity_id, session_id, epoch, quantity, unit_price, currency, title, status, pay_deadline, discount)
			VALUES ($1, $2, 5, (extract(epoch FROM clock_timestamp()) * 1e6)::bigint, 1, 1, 1, 1, 20000, 'CNY', 'mug', 'pending_payment', now(), 1000)`, o.No.Bucket(), o.No)
		return o
	}
	choose := func(o orderevent.Order, coupon string) error {
		return pg.InTx(t.Context(), s.db, func(tx pgx.Tx) error {
			_, _, err := s.Choose(t.Context(), tx, o, coupon)
			return err
		})
	}
	nos := held("available", "available")
	locked := order()
	require.NoError(t, choose(locked, nos[0]))
	one := "admin/coupons/" + kind + "/issued/" + nos[0] + "/recall"
	require.Equal(t, "recalled while locked", s.must("200", 9, auth.Operator, http.MethodPost, one, `{"reason":"印错了"}`)["status"], "locked")
	s.must("200", 9, auth.Operator, http.MethodPost, one, `{"reason":"again"}`)
	held("locked", "available")
	require.NoError(t, pg.InTx(t.Context(), s.db, func(tx pgx.Tx) error { return s.Return(t.Context(), tx, []ids.ID{locked.No}) }))
	s.exec(`UPDATE orders.orders SET status = 'closed' WHERE order_no = $1`, locked.No)
	held("recalled", "available")
	other := order()
	s.order = other
	if err := choose(other, nos[0]); err == nil || !strings.Contains(err.Error(), "recalled") {
		t.Errorf("a recalled coupon is chosen: %v", err)
	}
	require.NoError(t, choose(other, nos[1]))
	if k := s.must("200", 9, auth.Operator, http.MethodPost, "admin/coupons/"+kind+"/recall", `{"reason":"算错了"}`); k["status"] != stopped || k["locked"] != 1.0 || k["recalled_at"] == nil {
		t.Errorf("recalled: %v", k)
	}
	require.Equal(t, "violations by a choice from before the recall", s.violations(), nil)
	s.exec(`UPDATE orders.coupon_uses SET updated_at = now() + interval '2 minutes' WHERE order_no = $1`, other.No)
	if found := s.violations(); len(found) != 1 || !strings.Contains(found[0], "recalled before") {
		t.Errorf("a choice from after the recall: %q", found)
	}
	if fitting := s.must("200", 5, auth.Shopper, http.MethodGet, "coupons?order_no="+other.No.String(), "")["data"].([]any); len(fitting) != 1 {
		t.Errorf("for its own order: %v", fitting)
	}
	require.NoError(t, choose(other, ""))
	held("recalled", "recalled")
	list := s.must("200", 5, auth.Shopper, http.MethodGet, "coupons?status=recalled", "")["data"].([]any)
	require.Equal(t, "recalled, as the shopper reads", len(list), 2)
	s.must("200", 9, auth.Operator, http.MethodPost, "admin/coupons/"+kind+"/activate", "")
	issue(kind, `{"user_ids":["5"],"each":3}`)
	require.NoError(t, choose(other, held("available", "recalled", "recalled")[0]))

	draft := s.must("201", 9, auth.Operator, http.MethodPost, "admin/coupons", terms(""))["id"].(string)
	for path, want := range map[string]string{
		draft + "/recall": "409 coupon-not-active", "999/recall": "404 not-found", draft + "/issued/" + nos[0] + "/recall": "404 not-found",
		kind + "/issued/x/recall": "404 not-found",
	} {
		s.must(want, 9, auth.Operator, http.MethodPost, "admin/coupons/"+path, `{"reason":"x"}`)
	}
	s.must("422 invalid", 9, auth.Operator, http.MethodPost, "admin/coupons/"+kind+"/recall", `{"reason":""}`)
	s.must("422 invalid", 9, auth.Viewer, http.MethodGet, "admin/coupons/"+kind+"/issued", "")
	entries, err := audit.List(t.Context(), s.db, audit.Filter{Subject: "coupon " + kind})
	require.NoError(t, err)
	var recalls []string
	for _, e := range entries {
		var d struct{ Before, After struct{ Status string } }
		if strings.HasPrefix(e.Action, "coupon.recall") && json.Unmarshal(e.Detail, &d) == nil {
			recalls = append(recalls, e.Action+" "+d.Before.Status+" "+d.After.Status)
		}
	}
	require.Equal(t, "events about recalls, and about what was only chosen", []int{s.told(couponevent.SubjectRecalled), s.told(couponevent.SubjectReturned)}, []int{2, 0})
	require.Equal(t, "audited", recalls, []string{"coupon.recall active stopped", "coupon.recall-one locked locked"})
}

// Every issue of a kind waits for its lock, so that a change counts the kind's uses without it.
func TestAChangeCountsUsesWithoutTheKindsLock(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for _, verb := range []string{"stop", "recall"} {
		kind := s.kind(terms(""))
		release := pgtest.Locked(t, s.db, `LOCK TABLE orders.coupon_uses`)
		status := make(chan string, 1)
		go func() {
			got, _ := s.ask(9, auth.Operator, http.MethodPost, "admin/coupons/"+kind+"/"+verb, `{"reason":"x"}`)
			status <- got
		}()
		pgtest.Eventually(t, 10*time.Second, func() bool {
			return s.count(`SELECT count(*)::int FROM pg_locks l JOIN pg_database d ON d.oid = l.database
				WHERE d.datname = current_database() AND relation = 'orders.coupon_uses'::regclass AND NOT granted`) > 0
		}, "the uses are counted")
		s.exec(`SELECT FROM orders.coupon_kinds WHERE id = $1 FOR UPDATE NOWAIT`, kind)
		release()
		require.Equal(t, verb, <-status, "200")
	}
}

// What a kind's uses come to is read from the index alone, however many there are.
func TestUsesAreCountedByTheirIndex(t *testing.T) {
	t.Parallel()
	s := setup(t)
	kind := s.kind(terms(""))
	s.exec(`INSERT INTO orders.coupon_uses (bucket, order_no, coupon_no, kind_id, discount, status)
		SELECT i % 1024, gen_random_uuid(), gen_random_uuid(), $1::bigint + i % 2, 100, 'used' FROM generate_series(1, 10000) i`, kind)
	s.exec(`VACUUM ANALYZE orders.coupon_uses`)
	tx := pgtest.Begin(t, s.db)
	before := pgtest.RowsRead(t, tx, "orders.coupon_uses")
	rows, err := coupondb.New(tx).Kinds(t.Context(), coupondb.KindsParams{Most: 1})
	require.NoError(t, err)
	require.Equal(t, "used", rows[0].Used, int64(5000))
	require.Equal(t, "rows read", pgtest.RowsRead(t, tx, "orders.coupon_uses")-before, 0)
}
