package change

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/watch/proof"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/plan"
)

// TestAnAgreementIsPartOfTheTotal follows an agreement from the draft to the
// last unit: Redis grants the agreed units and not one more, and the books'
// proof includes them.
func TestAnAgreementIsPartOfTheTotal(t *testing.T) {
	t.Parallel()
	y := setup(t)
	d := y.instance()
	s := d.Draft(-time.Minute) // 10 units
	path := "/api/v1/admin/items/" + s.Item
	var r seckilltest.Reply
	d.leaves("agreeing on a draft", "[item.oversell] and 0 events", func() {
		r = d.Do(http.StatusOK, http.MethodPut, path+"/oversell", `{"percent":25,"reason":"contract 7"}`)
	})
	if r.Doc["oversell_percent"] != 25.0 || r.Text("oversell_reason") != "contract 7" || r.Doc["stock"] != 10.0 || r.Doc["on_sale"] != 12.0 {
		t.Errorf("the item: %s", r.Raw)
	}
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/publish", nil)
	item := s.StockItem(t, false)
	require.NoError(t, d.Stock.Load(t.Context(), item.ID))
	grant := func(from, users int64) (granted int) {
		attempts := make([]inventory.Attempt, users)
		for u := range users {
			attempts[u] = inventory.Attempt{User: from + u, No: ids.NewFor(from + u), Quantity: 1}
		}
		var into inventory.Decision
		require.NoError(t, d.Stock.Reserve(t.Context(), item, d.epoch(s), attempts, &into))
		for _, result := range into.Results {
			if result.Verdict == inventory.Granted {
				granted++
			}
		}
		return granted
	}
	require.Equal(t, "granted of 20", grant(100, 20), 12)
	// 2 more in stock make 13 + 2 more at 25 %: 15 on sale.
	r = d.Do(http.StatusOK, http.MethodPost, path+"/stock", `{"add":2}`)
	require.Equal(t, "stock and units on sale after adding 2", []any{r.Doc["stock"], r.Doc["on_sale"]}, []any{12.0, 15.0})
	require.Equal(t, "granted of 20 after 2 units were added", grant(200, 20), 3)
	r = d.Do(http.StatusOK, http.MethodGet, path+"/funnel", nil)
	books := r.Doc["books"].(map[string]any)
	if r.Doc["stock"] != 12.0 || r.Doc["oversell"] != 3.0 || books["total"] != 15.0 || books["in_flight"] != 15.0 || books["remaining"] != 0.0 {
		t.Errorf("funnel: %s", r.Raw)
	}
	prove := func() (all []proof.Violation) {
		for _, check := range append(plan.Checks(d.DB, d.Stock), d.svc.deps.Stock.Checks()...) {
			if check.ID != "I1" && check.Name != "stock follows the plan" {
				continue
			}
			found, err := check.Run(context.WithoutCancel(t.Context()))
			require.NoError(t, err)
			all = append(all, found...)
		}
		return all
	}
	require.Equal(t, "the books", prove(), nil)
	// One unit more than agreed is a violation, like one unit more than the stock without an
	// agreement.
	d.SQL(`UPDATE inventory.stock SET total = total + 1, available = available + 1 WHERE item_id = $1`, s.Item)
	if found := prove(); !strings.Contains(fmt.Sprint(found), "15 units on sale; the stock row has 16") {
		t.Errorf("one unit beyond the agreement: %v", found)
	}
}

// TestShoppersDoNotSeeAgreements checks that shoppers see the units on sale
// and nothing about the agreement.
func TestShoppersDoNotSeeAgreements(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Publish(time.Hour)
	d.leaves("agreeing", "[item.oversell] and 1 events", func() {
		d.Do(http.StatusOK, http.MethodPut, "/api/v1/admin/items/"+s.Item+"/oversell", `{"percent":50,"reason":"a secret"}`)
	})
	d.forgetBrowse()
	for _, path := range []string{"sessions/" + s.Session, "items/" + s.Item} {
		r := d.As("", http.MethodGet, "/api/v1/"+path, nil)
		if said := string(r.Raw); r.Status != http.StatusOK || !strings.Contains(said, `"total":15`) || strings.Contains(said, "oversell") || strings.Contains(said, "secret") || strings.Contains(said, "stock") {
			t.Errorf("%s: %d %s", path, r.Status, said)
		}
	}
	kept, err := d.Redis.HGetAll(t.Context(), "sv:"+s.Session).Result()
	if err != nil || strings.Contains(fmt.Sprint(kept), "oversell") {
		t.Errorf("session view in redis: %v %v", kept, err)
	}
}

// TestAgreementsAreRecordedAndLoaded changes the agreement of an item that is
// in Redis: up, down, and back to none.
func TestAgreementsAreRecordedAndLoaded(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	defer d.Run(d.preheat.Run)()
	s := d.Publish(10 * time.Minute)
	path := "/api/v1/admin/items/" + s.Item + "/oversell"
	d.settled(s, false, "the preheat", func(st inventory.State) bool { return st.Total == 10 })
	for _, c := range []struct {
		body  string
		total int64
	}{
		{`{"percent":100,"reason":"all of it again"}`, 20},
		{`{"percent":10,"reason":"less"}`, 11},
		{`{"percent":10,"reason":"less, in other words"}`, 11},
		{`{"percent":0,"reason":"taken back"}`, 10},
	} {
		var r seckilltest.Reply
		d.leaves(c.body, "[item.oversell] and 1 events", func() { r = d.Do(http.StatusOK, http.MethodPut, path, c.body) })
		d.settled(s, false, c.body, func(st inventory.State) bool { return st.Total == c.total && st.Remaining == c.total })
		require.Equal(t, c.body+": the total in Postgres", d.Number(`SELECT total FROM inventory.stock WHERE item_id = $1 AND available = total`, s.Item), c.total)
		again := c.body
		if c.total == 10 {
			again = `{"percent":0}`
		}
		d.leaves(c.body+" twice", nothing, func() {
			require.Equal(t, c.body+" twice", string(d.Do(http.StatusOK, http.MethodPut, path, again).Raw), string(r.Raw))
		})
	}
	require.Equal(t, "records of taking it back", d.Number(`SELECT count(*) FROM platform.audit
		WHERE action = 'item.oversell' AND subject = $1 AND actor = 72
		AND detail->'before'->>'percent' = '10' AND detail->'after'->>'percent' = '0' AND detail->>'reason' = 'taken back'`, "item "+s.Item), 1)
}

// TestWrongAgreements checks that a refused agreement names the mistake and
// records nothing.
func TestWrongAgreements(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Draft(time.Hour)
	free := d.Draft(time.Hour, func(_, _, item map[string]any) { item["unlimited"], item["stock"] = true, 0 })
	most := d.Draft(time.Hour, func(_, _, item map[string]any) { item["stock"] = plan.MaxStock })
	half := d.Publish(time.Hour, func(_, _, item map[string]any) { item["stock"] = plan.MaxStock / 2 })
	d.Do(http.StatusOK, http.MethodPut, "/api/v1/admin/items/"+half.Item+"/oversell", `{"percent":100,"reason":"x"}`)
	d.leaves("wrong agreements", nothing, func() {
		for _, c := range []struct{ method, path, body, code, want string }{
			{http.MethodPut, s.Item + "/oversell", `{"percent":101,"reason":"x"}`, "invalid", "100"},
			{http.MethodPut, s.Item + "/oversell", `{"percent":-1,"reason":"x"}`, "invalid", "body.percent"},
			{http.MethodPut, s.Item + "/oversell", `{"percent":1.5,"reason":"x"}`, "invalid", "a whole number"},
			{http.MethodPut, s.Item + "/oversell", `{"reason":"x"}`, "invalid", "percent"},
			{http.MethodPut, s.Item + "/oversell", `{"percent":1}`, "invalid", "needs a reason"},
			{http.MethodPut, s.Item + "/oversell", `{"percent":1,"reason":"  "}`, "invalid", "needs a reason"},
			{http.MethodPut, s.Item + "/oversell", `{"percent":1,"reason":"` + strings.Repeat("长", 501) + `"}`, "invalid", "0 to 500"},
			{http.MethodPut, free.Item + "/oversell", `{"percent":1,"reason":"x"}`, "invalid", "no stock to oversell"},
			{http.MethodPut, most.Item + "/oversell", `{"percent":1,"reason":"x"}`, "invalid", "more than 10000000"},
			{http.MethodPut, "987654/oversell", `{"percent":1,"reason":"x"}`, "not-found", ""},
			{http.MethodPatch, half.Item, `{"version":2,"stock":5000001}`, "invalid", "100 % oversold"},
			{http.MethodPatch, half.Item, `{"version":2,"stock":0,"unlimited":true}`, "invalid", "oversell percentage to 0 first"},
			{http.MethodPost, half.Item + "/stock", `{"add":1}`, "invalid", "100 % oversold"},
		} {
			r := d.As(auth.Operator, c.method, "/api/v1/admin/items/"+c.path, c.body)
			r.Want(t, c.path+" "+c.body, statusOf[c.code], c.code, c.want)
		}
	})
	r := d.As(auth.Viewer, http.MethodPut, "/api/v1/admin/items/"+s.Item+"/oversell", `{"percent":1,"reason":"x"}`)
	r.Want(t, "a viewer agreed", http.StatusForbidden, "")
}

// TestAnItemBecomesUnlimitedAndBack checks that one field is the whole edit, and
// that operators see null, not 0, for everything that is not counted.
func TestAnItemBecomesUnlimitedAndBack(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Draft(time.Hour)
	path := "/api/v1/admin/items/" + s.Item
	counts := func(what string, view map[string]any, want any) {
		t.Helper()
		if view["stock"] != want || view["on_sale"] != want || view["unlimited"] != (want == nil) {
			t.Errorf("%s: %v, want %v counted", what, view, want)
		}
	}
	counts("the edit", d.Do(http.StatusOK, http.MethodPatch, path, `{"version":1,"unlimited":true}`).Doc, nil)
	counts("the item", d.Do(http.StatusOK, http.MethodGet, path, nil).Doc, nil)
	session := d.Do(http.StatusOK, http.MethodGet, "/api/v1/admin/sessions/"+s.Session, nil).Doc
	counts("its session", session["items"].([]any)[0].(map[string]any), nil)
	funnel := d.Do(http.StatusOK, http.MethodGet, path+"/funnel", nil).Doc
	for _, field := range []string{"stock", "oversell"} {
		if v, ok := funnel[field]; !ok || v != nil {
			t.Errorf("the funnel's %s is %v", field, v)
		}
	}
	for body, want := range map[string]string{
		`{"version":2,"unlimited":true,"stock":5}`: "no stock to count", `{"version":2,"unlimited":false}`: "at least one unit",
	} {
		d.As(auth.Operator, http.MethodPatch, path, body).Want(t, body, http.StatusUnprocessableEntity, "", want)
	}
	counts("back again", d.Do(http.StatusOK, http.MethodPatch, path, `{"version":2,"unlimited":false,"stock":3}`).Doc, 3.0)
}

// TestTheAdmissionRateIsShown checks that every instance shows the rate,
// whichever instance it was set on.
func TestTheAdmissionRateIsShown(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a, b := y.instance(), y.instance()
	s := a.Publish(time.Hour)
	path := "/api/v1/admin/items/" + s.Item + "/admission"
	for _, c := range []struct {
		body string
		want any
	}{{`{"per_second":250}`, 250.0}, {`{"per_second":40}`, 40.0}, {`{"per_second":0}`, 0.0}, {`{"per_second":null}`, nil}} {
		a.leaves(c.body, "[item.admission] and 1 events", func() { a.Do(http.StatusOK, http.MethodPut, path, c.body) })
		for name, d := range map[string]*instance{"that it was set on": a, "beside it": b} {
			require.NoError(t, d.items.Refresh(t.Context()))
			if item, _ := d.items.Item(s.StockItem(t, false).ID); (item.Admission == nil) != (c.want == nil) || item.Admission != nil && float64(*item.Admission) != c.want {
				t.Errorf("%s: the line %s admits %v", c.body, name, item.Admission)
			}
			r := d.As(auth.Viewer, http.MethodGet, path, nil)
			r.Want(t, c.body+" on the instance "+name, http.StatusOK, "")
			require.Equal(t, c.body+" on the instance "+name, r.Doc["per_second"], c.want)
		}
	}
	a.As(auth.Viewer, http.MethodGet, "/api/v1/admin/items/987654/admission", nil).Want(t, "unknown item", http.StatusNotFound, "")
	a.As(auth.Shopper, http.MethodGet, path, nil).Want(t, "a shopper sees it", http.StatusForbidden, "")
	for _, role := range []auth.Role{auth.Shopper, auth.Viewer} {
		a.As(role, http.MethodPut, path, `{"per_second":1}`).Want(t, "set by a "+string(role), http.StatusForbidden, "")
	}
}
