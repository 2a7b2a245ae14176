package seckill

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/watch/proof"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilldb"
)

// TestUnitsOnSale checks that the share is rounded down, never below the stock
// and never above the agreement.
func TestUnitsOnSale(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stock   int32
		percent int16
		want    int32
	}{{10, 0, 10}, {10, 9, 10}, {10, 10, 11}, {19, 5, 19}, {20, 5, 21}, {3, 50, 4}, {7, 100, 14}, {10_000_000, 100, 20_000_000}} {
		if got := unitsOnSale(&seckilldb.SeckillItem{Stock: c.stock, OversellPercent: c.percent}); got != c.want {
			t.Errorf("%d units and %d %%: %d on sale, want %d", c.stock, c.percent, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		i := seckilldb.SeckillItem{Stock: rapid.Int32Range(0, maxStock).Draw(t, "stock"), OversellPercent: int16(rapid.IntRange(0, maxOversellPercent).Draw(t, "percent"))}
		beyond := int64(unitsOnSale(&i) - i.Stock)
		if share := int64(i.Stock) * int64(i.OversellPercent); beyond*100 > share || (beyond+1)*100 <= share {
			t.Fatalf("%d units beyond %d at %d %%", beyond, i.Stock, i.OversellPercent)
		}
	})
}

// TestAnAgreementIsPartOfTheTotal follows an agreement from the draft to the
// last unit: Redis grants the agreed units and not one more, and the books'
// proof includes them.
func TestAnAgreementIsPartOfTheTotal(t *testing.T) {
	t.Parallel()
	y := setup(t)
	d := y.instance()
	s := d.draft(-time.Minute) // 10 units
	path := "/api/v1/admin/items/" + s.item
	var r reply
	tr := d.traced(func() {
		r = d.do(http.StatusOK, http.MethodPut, path+"/oversell", `{"percent":25,"reason":"contract 7"}`)
	})
	if tr.String() != "[item.oversell] and 0 events" {
		t.Errorf("agreeing on a draft left %v", tr)
	}
	if r.body["oversell_percent"] != 25.0 || r.text("oversell_reason") != "contract 7" || r.body["stock"] != 10.0 || r.body["on_sale"] != 12.0 {
		t.Errorf("the item: %s", r.raw)
	}
	d.do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.activity+"/publish", nil)
	item := s.stockItem(t, false)
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
	r = d.do(http.StatusOK, http.MethodPost, path+"/stock", `{"add":2}`)
	if r.body["stock"] != 12.0 || r.body["on_sale"] != 15.0 {
		t.Errorf("after adding 2: %s", r.raw)
	}
	require.Equal(t, "granted of 20 after 2 units were added", grant(200, 20), 3)
	r = d.do(http.StatusOK, http.MethodGet, path+"/funnel", nil)
	books := r.body["books"].(map[string]any)
	if r.body["stock"] != 12.0 || r.body["oversell"] != 3.0 || books["total"] != 15.0 || books["in_flight"] != 15.0 || books["remaining"] != 0.0 {
		t.Errorf("funnel: %s", r.raw)
	}
	prove := func() (all []proof.Violation) {
		for _, check := range append(d.svc.Checks(), d.svc.deps.Stock.Checks()...) {
			if check.ID != "I1" && check.Name != "stock follows the plan" {
				continue
			}
			found, err := check.Run(context.WithoutCancel(t.Context()))
			require.NoError(t, err)
			all = append(all, found...)
		}
		return all
	}
	if found := prove(); len(found) != 0 {
		t.Errorf("the books: %v", found)
	}
	// One unit more than agreed is a violation, like one unit more than the stock without an
	// agreement.
	d.sql(`UPDATE inventory.stock SET total = total + 1, available = available + 1 WHERE item_id = $1`, s.item)
	if found := prove(); !strings.Contains(fmt.Sprint(found), "15 units on sale; the stock row has 16") {
		t.Errorf("one unit beyond the agreement: %v", found)
	}
}

// TestShoppersDoNotSeeAgreements checks that shoppers see the units on sale
// and nothing about the agreement.
func TestShoppersDoNotSeeAgreements(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.publish(time.Hour)
	tr := d.traced(func() {
		d.do(http.StatusOK, http.MethodPut, "/api/v1/admin/items/"+s.item+"/oversell", `{"percent":50,"reason":"a secret"}`)
	})
	if tr.String() != "[item.oversell] and 1 events" {
		t.Errorf("agreeing left %v", tr)
	}
	d.forgetBrowse()
	for _, path := range []string{"sessions/" + s.session, "items/" + s.item} {
		r := d.as("", http.MethodGet, "/api/v1/"+path, nil)
		if said := string(r.raw); r.status != http.StatusOK || !strings.Contains(said, `"total":15`) || strings.Contains(said, "oversell") || strings.Contains(said, "secret") || strings.Contains(said, "stock") {
			t.Errorf("%s: %d %s", path, r.status, said)
		}
	}
	kept, err := d.Redis.HGetAll(t.Context(), "sv:"+s.session).Result()
	if err != nil || strings.Contains(fmt.Sprint(kept), "oversell") {
		t.Errorf("session view in redis: %v %v", kept, err)
	}
}

// TestAgreementsAreRecordedAndLoaded changes the agreement of an item that is
// in Redis: up, down, and back to none.
func TestAgreementsAreRecordedAndLoaded(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	defer d.Run(d.svc.Preheat.Run)()
	s := d.publish(10 * time.Minute)
	path := "/api/v1/admin/items/" + s.item + "/oversell"
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
		var r reply
		if tr := d.traced(func() { r = d.do(http.StatusOK, http.MethodPut, path, c.body) }); tr.String() != "[item.oversell] and 1 events" {
			t.Errorf("%s left %v", c.body, tr)
		}
		d.settled(s, false, c.body, func(st inventory.State) bool { return st.Total == c.total && st.Remaining == c.total })
		if n := d.number(`SELECT total FROM inventory.stock WHERE item_id = $1 AND available = total`, s.item); n != c.total {
			t.Errorf("%s: total %d in Postgres", c.body, n)
		}
		again := c.body
		if c.total == 10 {
			again = `{"percent":0}`
		}
		if tr := d.traced(func() {
			if repeated := d.do(http.StatusOK, http.MethodPut, path, again); !bytes.Equal(repeated.raw, r.raw) {
				t.Errorf("%s twice: %s", c.body, repeated.raw)
			}
		}); tr.String() != "[] and 0 events" {
			t.Errorf("%s twice left %v", c.body, tr)
		}
	}
	var before, after, reason string
	if err := d.DB.QueryRow(t.Context(), `SELECT detail->'before'->>'percent', detail->'after'->>'percent', detail->>'reason' FROM platform.audit
		WHERE action = 'item.oversell' AND subject = $1 AND actor = 72 ORDER BY id DESC LIMIT 1`, "item "+s.item).Scan(&before, &after, &reason); err != nil {
		t.Fatal(err)
	}
	if before != "10" || after != "0" || reason != "taken back" {
		t.Errorf("the log says from %s to %s because %q", before, after, reason)
	}
}

// TestWrongAgreements checks that a refused agreement names the mistake and
// records nothing.
func TestWrongAgreements(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.draft(time.Hour)
	free := d.draft(time.Hour, func(_, _, item map[string]any) { item["unlimited"], item["stock"] = true, 0 })
	most := d.draft(time.Hour, func(_, _, item map[string]any) { item["stock"] = maxStock })
	half := d.publish(time.Hour, func(_, _, item map[string]any) { item["stock"] = maxStock / 2 })
	d.do(http.StatusOK, http.MethodPut, "/api/v1/admin/items/"+half.item+"/oversell", `{"percent":100,"reason":"x"}`)
	tr := d.traced(func() {
		for _, c := range []struct{ method, path, body, code, want string }{
			{http.MethodPut, s.item + "/oversell", `{"percent":101,"reason":"x"}`, "invalid", "100"},
			{http.MethodPut, s.item + "/oversell", `{"percent":-1,"reason":"x"}`, "invalid", "body.percent"},
			{http.MethodPut, s.item + "/oversell", `{"percent":1.5,"reason":"x"}`, "invalid", "a whole number"},
			{http.MethodPut, s.item + "/oversell", `{"reason":"x"}`, "invalid", "percent"},
			{http.MethodPut, s.item + "/oversell", `{"percent":1}`, "invalid", "needs a reason"},
			{http.MethodPut, s.item + "/oversell", `{"percent":1,"reason":"  "}`, "invalid", "needs a reason"},
			{http.MethodPut, s.item + "/oversell", `{"percent":1,"reason":"` + strings.Repeat("长", 501) + `"}`, "invalid", "0 to 500"},
			{http.MethodPut, free.item + "/oversell", `{"percent":1,"reason":"x"}`, "invalid", "no stock to oversell"},
			{http.MethodPut, most.item + "/oversell", `{"percent":1,"reason":"x"}`, "invalid", "more than 10000000"},
			{http.MethodPut, "987654/oversell", `{"percent":1,"reason":"x"}`, "not-found", ""},
			{http.MethodPatch, half.item, `{"version":2,"stock":5000001}`, "invalid", "100 % oversold"},
			{http.MethodPatch, half.item, `{"version":2,"stock":0,"unlimited":true}`, "invalid", "oversell percentage to 0 first"},
			{http.MethodPost, half.item + "/stock", `{"add":1}`, "invalid", "100 % oversold"},
		} {
			r := d.as(auth.Operator, c.method, "/api/v1/admin/items/"+c.path, c.body)
			if r.status < 400 || r.text("code") != c.code || !strings.Contains(string(r.raw), c.want) {
				t.Errorf("%s %s: %d %s, want %s …%s…", c.path, c.body, r.status, r.raw, c.code, c.want)
			}
		}
	})
	if tr.String() != "[] and 0 events" {
		t.Errorf("left %v", tr)
	}
	if r := d.as(auth.Viewer, http.MethodPut, "/api/v1/admin/items/"+s.item+"/oversell", `{"percent":1,"reason":"x"}`); r.status != http.StatusForbidden {
		t.Errorf("a viewer agreed: %d", r.status)
	}
}
