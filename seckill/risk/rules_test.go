package risk

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/audit"
	"stampede/platform/auth"
	"stampede/platform/blacklist"
	"stampede/platform/fault"
	"stampede/platform/pgtest"
	"stampede/seckill"
)

// inForce is how soon a change is to be in force on every instance, and three
// times that is what a busy machine is given.
const inForce = 3 * time.Second

// What each grade does to a path, and that several add up to the strictest.
func TestGrades(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	item := y.activity("sale", false)
	opens := time.Now().Add(time.Minute)
	item.OpensAt = opens
	i := y.instance()
	for _, rule := range []string{
		`{"kind":"unpaid_holds","threshold":2,"action":"short_window","amount":300}`,
		`{"kind":"unpaid_holds","threshold":3,"action":"short_window","amount":60}`,
		`{"kind":"unpaid_holds","threshold":4,"action":"later","amount":800}`,
		`{"kind":"unpaid_holds","threshold":5,"action":"later","amount":3000}`,
		`{"kind":"unpaid_holds","threshold":6,"action":"chance","amount":0.0000001}`,
		`{"kind":"unpaid_holds","threshold":7,"action":"none"}`,
	} {
		i.addRule(rule)
	}
	const window = 15 * time.Minute
	for _, c := range []struct {
		unpaid  int
		within  time.Duration
		later   time.Duration
		refused bool
	}{
		{0, window, 0, false},
		{1, window, 0, false},
		{2, 5 * time.Minute, 0, false},
		{3, time.Minute, 0, false},
		{4, time.Minute, 800 * time.Millisecond, false},
		{5, time.Minute, 3 * time.Second, false},
		{6, time.Minute, 3 * time.Second, true},
		{7, time.Minute, 3 * time.Second, true},
	} {
		user := int64(100 + c.unpaid)
		i.unpaid(user, item, c.unpaid)
		a := i.applicant(user, item)
		err := i.Door(t.Context(), a)
		if (err != nil) != c.refused {
			t.Errorf("%d unpaid holds: %v", c.unpaid, err)
		}
		if err != nil {
			f := fault.From(err)
			requireEqual(t, "what the refused reads", f.Detail, "This item is not available to you right now.")
			requireEqual(t, "and how it is told", []any{f.Kind, f.Code, len(f.Fields)}, []any{fault.Forbidden, "not-available", 0})
		}
		if a.PayWithin != c.within || !a.UsableFrom.Equal(opens.Add(c.later)) {
			t.Errorf("%d unpaid holds: %s to pay, usable %s after the opening; want %s and %s",
				c.unpaid, a.PayWithin, a.UsableFrom.Sub(opens), c.within, c.later)
		}
	}
}

// A rule never makes a path better.
func TestRulesNeverLoosen(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	item := y.activity("sale", false)
	i := y.instance()
	i.addRule(`{"kind":"unpaid_holds","threshold":1,"action":"short_window","amount":3600}`)
	i.addRule(`{"kind":"unpaid_holds","threshold":1,"action":"later","amount":100}`)
	i.unpaid(1, item, 1)
	a := i.applicant(1, item) // the sale opened a minute ago
	a.UsableFrom = a.Now.Add(time.Hour)
	want := *a
	if err := i.Door(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if a.PayWithin != want.PayWithin || !a.UsableFrom.Equal(want.UsableFrom) {
		t.Fatalf("%s to pay from %s", a.PayWithin, a.UsableFrom)
	}
}

func TestChanceIsDrawnOnceAndFair(t *testing.T) {
	t.Parallel()
	instance := func(key string) *Service { return &Service{chanceKey: auth.Derive([]byte(key), "risk-chance")} }
	one, two := instance("a key of both"), instance("a key of both")
	const first, second = 1, 2 // items
	const users, p = 10_000, 0.3
	r := &Rule{ID: 5, Action: Chance, Amount: p}
	lucky, both := 0, 0
	for user := range int64(users) {
		got := one.lucky(user, first, r)
		if two.lucky(user, first, r) != got || one.lucky(user, first, r) != got {
			t.Fatal("asking again, or elsewhere, changed the lot")
		}
		if got {
			lucky++
			if one.lucky(user, second, r) {
				both++
			}
		}
	}
	// Five standard deviations of a binomial: a fair lot fails once in a million keys,
	// and the key is fixed.
	if spread := 5 * math.Sqrt(users*p*(1-p)); math.Abs(float64(lucky)-users*p) > spread {
		t.Errorf("%d of %d got a path, want %.0f ± %.0f", lucky, users, users*p, spread)
	}
	// Another item is another lot.
	if spread := 5 * math.Sqrt(users*p*p*(1-p*p)); math.Abs(float64(both)-users*p*p) > spread {
		t.Errorf("%d were lucky twice, want %.0f ± %.0f", both, users*p*p, spread)
	}
	other := instance("another key")
	same := 0
	for user := range int64(200) {
		if other.lucky(user, first, r) == one.lucky(user, first, r) {
			same++
		}
	}
	if same == 200 {
		t.Error("the lot does not depend on the key")
	}
}

func TestDecisionIsStored(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	item := y.activity("sale", false)
	i := y.instance()
	stop := i.work()
	id := i.addRule(`{"kind":"unpaid_holds","threshold":2,"action":"short_window","amount":60,"note":"as agreed"}`)
	i.unpaid(9, item, 3)
	a := i.applicant(9, item)
	if err := i.Door(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if err := i.Door(t.Context(), i.applicant(10, item)); err != nil { // innocent: nothing to store
		t.Fatal(err)
	}
	stop() // stores what is in line
	code, doc := i.call(auth.Viewer, http.MethodGet, "/decisions?user_id=9&rule_id="+id, "")
	if code != http.StatusOK || len(doc["data"].([]any)) != 1 || y.count(`SELECT count(*) FROM risk.decisions`) != 1 {
		t.Fatalf("%d %v", code, doc)
	}
	got := doc["data"].([]any)[0].(map[string]any)
	requireEqual(t, "rule", got["rule"].(map[string]any), map[string]any{
		"kind": "unpaid_holds", "threshold": 2.0, "window_seconds": 2592000.0, "action": "short_window", "amount": 60.0,
	})
	requireEqual(t, "count", got["inputs"].(map[string]any)["count"], any(3.0))
	requireEqual(t, "result", got["result"], any("short-window"))
	requireEqual(t, "number", got["order_no"], any(a.OrderNo.String()))
	// It outlives the rule, which it describes as it was.
	if code, doc := i.call(auth.Operator, http.MethodDelete, "/rules/"+id, ""); code != http.StatusOK {
		t.Fatalf("%d %v", code, doc)
	}
	requireEqual(t, "decisions", y.count(`SELECT count(*) FROM risk.decisions WHERE rule_id = $1`, id), 1)
}

// A dry run restricts nobody and names exactly those whom the same rule then hits.
func TestDryRunEqualsTheRealHits(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	item := y.activity("sale", false)
	i := y.instance()
	for user := range int64(150) {
		i.unpaid(user+1, item, int(user%4)) // 0 to 3 unpaid closings
		y.open[user+1] = user % 5           // 0 to 4 open orders
		for range user % 6 {
			i.Refused(user + 1) // 0 to 5 refusals
		}
	}
	y.exec(`UPDATE risk.holds SET closed_at = closed_at - interval '8 days' WHERE user_id % 10 = 3`) // not within a week
	if err := i.flushRefusals(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, rule := range []string{
		`{"kind":"unpaid_holds","threshold":2,"window_seconds":604800,"action":"none"}`,
		`{"kind":"open_unpaid","threshold":3,"action":"none"}`,
		`{"kind":"refusals_per_minute","threshold":4,"action":"none"}`,
	} {
		code, dry := i.call(auth.Operator, http.MethodPost, "/rules/dry-run", rule)
		if code != http.StatusOK {
			t.Fatalf("%d %v", code, dry)
		}
		for user := range int64(150) {
			if err := i.Door(t.Context(), i.applicant(user+1, item)); err != nil {
				t.Fatalf("the dry run refused user %d", user+1)
			}
		}
		id := i.addRule(rule)
		hit := map[string]bool{}
		for user := range int64(150) {
			if i.Door(t.Context(), i.applicant(user+1, item)) != nil {
				hit[decimal(user+1)] = true
			}
		}
		named := map[string]bool{}
		for _, h := range dry["data"].([]any) {
			named[h.(map[string]any)["user_id"].(string)] = true
		}
		if len(hit) == 0 || len(hit) == 150 {
			t.Fatalf("%s hit %d", rule, len(hit))
		}
		requireEqual(t, "users of "+rule, named, hit)
		requireEqual(t, "count of "+rule, dry["count"], any(float64(len(hit))))
		if code, doc := i.call(auth.Operator, http.MethodDelete, "/rules/"+id, ""); code != http.StatusOK {
			t.Fatalf("%d %v", code, doc)
		}
	}
	requireEqual(t, "marks of removed rules", y.count(`SELECT count(*) FROM risk.marks`), 0)
}

func TestDryRunNamesAHundredAndCountsAll(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	i := y.instance()
	for user := range int64(130) {
		y.open[user+1] = 2 + user
	}
	_, dry := i.call(auth.Viewer, http.MethodPost, "/rules/dry-run", `{"kind":"open_unpaid","threshold":2,"action":"none"}`)
	if dry["count"] != 130.0 || len(dry["data"].([]any)) != 100 || dry["data"].([]any)[0].(map[string]any)["user_id"] != "130" {
		t.Fatalf("%v users, %d named", dry["count"], len(dry["data"].([]any)))
	}
}

// What one instance learns, another knows within a second: a new rule, a user who
// reaches its threshold, a change, its removal.
func TestRulesReachEveryInstance(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	item := y.activity("sale", false)
	one, two := y.instance(), y.instance()
	two.work()
	refuses := func(want bool, what string) {
		t.Helper()
		pgtest.Eventually(t, inForce, func() bool { return (two.Door(t.Context(), two.applicant(1, item)) != nil) == want }, what)
	}
	one.unpaid(1, item, 2)
	id := one.addRule(`{"kind":"unpaid_holds","threshold":2,"action":"none"}`)
	refuses(true, "the rule is in force elsewhere")
	if code, doc := one.call(auth.Operator, http.MethodPut, "/rules/"+id, `{"kind":"unpaid_holds","threshold":3,"action":"none"}`); code != http.StatusOK {
		t.Fatalf("%d %v", code, doc)
	}
	refuses(false, "the change is in force elsewhere")
	one.unpaid(1, item, 1)
	refuses(true, "the user's next closing counts elsewhere")
	// Without a broadcast the poll finds it.
	y.exec(`DELETE FROM risk.rules`)
	y.exec(`UPDATE risk.revision SET revision = revision + 1`)
	refuses(false, "a change that was not broadcast is found")
}

func TestRulesAndMarksExpire(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	item := y.activity("sale", false)
	i := y.instance()
	refused := func(user int64) bool { return i.Door(t.Context(), i.applicant(user, item)) != nil }
	i.addRule(fmt.Sprintf(`{"kind":"unpaid_holds","threshold":1,"action":"none","expires_at":%q}`, time.Now().Add(time.Hour).Format(time.RFC3339)))
	i.unpaid(1, item, 1)
	if !refused(1) {
		t.Fatal("the rule is not in force")
	}
	i.clock.advance(time.Hour + time.Second)
	if refused(1) {
		t.Fatal("the rule outlived its end")
	}
	i.clock.advance(-time.Hour - time.Second)
	i.addRule(`{"kind":"unpaid_holds","threshold":2,"window_seconds":7200,"action":"none"}`)
	i.unpaid(2, item, 2)
	if !refused(2) {
		t.Fatal("the second rule is not in force")
	}
	i.clock.advance(2*time.Hour + time.Second) // the first rule is over, and both closings left the window
	if refused(2) {
		t.Fatal("the mark outlived its window")
	}
}

func TestOpenUnpaidFollowsTheOrders(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	item := y.activity("sale", false)
	i := y.instance()
	y.open[1] = 3
	i.addRule(`{"kind":"open_unpaid","threshold":3,"action":"none"}`)
	if i.Door(t.Context(), i.applicant(1, item)) == nil {
		t.Fatal("three open orders and a path")
	}
	// Another instance asks when one of them is paid.
	paid := y.instance(func(_ *Config, d *Deps) { d.Orders = openOrders{1: 2} })
	paid.work()
	for _, at := range []*instance{paid, i} {
		pgtest.Eventually(t, inForce, func() bool {
			at.refresh()
			return at.Door(t.Context(), at.applicant(1, item)) == nil
		}, "the user is below the threshold")
	}
}

func TestAnOrderPaidAfterAllIsForgotten(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	item := y.activity("sale", false)
	i := y.instance()
	i.addRule(`{"kind":"unpaid_holds","threshold":1,"action":"none"}`)
	i.unpaid(1, item, 1)
	o := order(1, item, [16]byte{}, orderevent.StatusPaid, 3)
	if err := y.db.QueryRow(t.Context(), `SELECT order_no FROM risk.holds`).Scan(&o.No); err != nil {
		t.Fatal(err)
	}
	i.tell(orderevent.SubjectPaid, o)
	if err := i.recount(t.Context(), UnpaidHolds); err != nil {
		t.Fatal(err)
	}
	if err := i.Door(t.Context(), i.applicant(1, item)); err != nil {
		t.Fatal(err)
	}
}

// Refusals of the watched checks count over all instances; a store that is away
// and the question for a proof do not.
func TestRefusalsPerMinute(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	item := y.activity("sale", false)
	one, two := y.instance(), y.instance()
	one.work()
	two.work()
	one.addRule(`{"kind":"refusals_per_minute","threshold":6,"action":"later","amount":300000}`)
	says := map[int64]error{
		1: fault.New(fault.TooMany, "rate-limited", "Slower."),
		2: fault.New(fault.Forbidden, "human-check-required", "Prove it."),
		3: fault.New(fault.Unavailable, "unavailable", "Away."),
		4: errNotAvailable, // by a rule
	}
	for _, i := range []*instance{one, two} {
		check := i.Watch(func(_ context.Context, a *seckill.Applicant) error { return says[a.User] })[0]
		for user := range int64(5) {
			for range 4 { // eight in all, but four on each instance
				if err := check(t.Context(), i.applicant(user, item)); (err != nil) != (says[user] != nil) {
					t.Fatal(err)
				}
			}
		}
	}
	later := func(i *instance, user int64) bool {
		a := i.applicant(user, item)
		if err := i.Door(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		return a.UsableFrom.After(item.OpensAt)
	}
	pgtest.Eventually(t, inForce, func() bool { return later(one, 1) && later(two, 1) }, "refusals of both instances counted together")
	for user := range int64(5) {
		if user != 1 && (later(one, user) || later(two, user)) {
			t.Errorf("user %d is hit", user)
		}
	}
}

// list stands for the blacklist.
type list map[string]bool

func (l list) Listed(user int64, _, device string, addr netip.Addr) (blacklist.Entry, bool) {
	if l[decimal(user)] || l[device] || l[addr.String()] {
		return blacklist.Entry{ID: 4, Kind: blacklist.Device, Reason: "secret"}, true
	}
	return blacklist.Entry{}, false
}

func TestWhoIsListedIsToldNothing(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	item := y.activity("sale", false)
	i := y.instance(func(_ *Config, d *Deps) { d.Blacklist = list{"1": true, "stolen": true, "192.0.2.1": true} })
	stop := i.work()
	for _, change := range []func(*seckill.Applicant){
		func(a *seckill.Applicant) { a.User = 1 },
		func(a *seckill.Applicant) { a.Device = "stolen" },
		func(a *seckill.Applicant) { a.Address = netip.MustParseAddr("192.0.2.1") },
	} {
		a := i.applicant(2, item)
		if err := i.Door(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		change(a)
		err := i.Door(t.Context(), a)
		requireFault(t, "listed", err, "not-available")
		requireEqual(t, "words", fault.From(err).Detail, "This item is not available to you right now.")
	}
	stop()
	requireEqual(t, "decisions", y.count(`SELECT count(*) FROM risk.decisions WHERE rule_id = 0 AND result = 'refused' AND rule->>'blacklist' = '4'`), 3)
	requireEqual(t, "reasons kept", y.count(`SELECT count(*) FROM risk.decisions WHERE rule::text LIKE '%secret%'`), 0)
}

func TestRuleRoutes(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	i := y.instance()
	const good = `{"kind":"unpaid_holds","threshold":2,"action":"chance","amount":0.5}`
	id := i.addRule(good)
	for _, c := range []struct {
		name               string
		role               auth.Role
		method, path, body string
		status             int
	}{
		{"shopper", auth.Shopper, http.MethodGet, "/rules", "", 403},
		{"viewer reads", auth.Viewer, http.MethodGet, "/rules", "", 200},
		{"viewer adds", auth.Viewer, http.MethodPost, "/rules", good, 403},
		{"viewer removes", auth.Viewer, http.MethodDelete, "/rules/" + id, "", 403},
		{"unknown kind", auth.Operator, http.MethodPost, "/rules", `{"kind":"looks","threshold":2,"action":"none"}`, 422},
		{"unknown action", auth.Operator, http.MethodPost, "/rules", `{"kind":"open_unpaid","threshold":2,"action":"fine"}`, 422},
		{"no threshold", auth.Operator, http.MethodPost, "/rules", `{"kind":"open_unpaid","threshold":0,"action":"none"}`, 422},
		{"certain chance", auth.Operator, http.MethodPost, "/rules", `{"kind":"open_unpaid","threshold":2,"action":"chance","amount":1}`, 422},
		{"window too short to pay", auth.Operator, http.MethodPost, "/rules", `{"kind":"open_unpaid","threshold":2,"action":"short_window","amount":9}`, 422},
		{"too late", auth.Operator, http.MethodPost, "/rules", `{"kind":"open_unpaid","threshold":2,"action":"later","amount":600001}`, 422},
		{"an amount of nothing", auth.Operator, http.MethodPost, "/rules", `{"kind":"open_unpaid","threshold":2,"action":"none","amount":1}`, 422},
		{"endless window", auth.Operator, http.MethodPost, "/rules", `{"kind":"unpaid_holds","threshold":2,"window_seconds":9223372036854775807,"action":"none"}`, 422},
		{"over already", auth.Operator, http.MethodPost, "/rules", `{"kind":"open_unpaid","threshold":2,"action":"none","expires_at":"2020-01-01T00:00:00Z"}`, 422},
		{"another kind", auth.Operator, http.MethodPut, "/rules/" + id, `{"kind":"open_unpaid","threshold":2,"action":"none"}`, 422},
		{"no such rule", auth.Operator, http.MethodPut, "/rules/4711", good, 404},
		{"no such rule to remove", auth.Operator, http.MethodDelete, "/rules/4711", "", 404},
		{"a cursor of nobody", auth.Viewer, http.MethodGet, "/decisions?cursor=x", "", 422},
		{"change", auth.Operator, http.MethodPut, "/rules/" + id, `{"kind":"unpaid_holds","threshold":3,"action":"none"}`, 200},
		{"remove", auth.Operator, http.MethodDelete, "/rules/" + id, "", 200},
	} {
		if code, doc := i.call(c.role, c.method, c.path, c.body); code != c.status {
			t.Errorf("%s: %d %v, want %d", c.name, code, doc, c.status)
		}
	}
	entries, err := audit.List(t.Context(), y.db, audit.Filter{Subject: "risk rule " + id})
	if err != nil {
		t.Fatal(err)
	}
	var actions []string
	for _, e := range entries {
		actions = append(actions, e.Action)
	}
	requireEqual(t, "audit log", actions, []string{"risk-rule.remove", "risk-rule.change", "risk-rule.add"})
	first, second := i.addRule(good), i.addRule(good)
	_, page := i.call(auth.Viewer, http.MethodGet, "/rules?limit=1", "")
	requireEqual(t, "newest", page["data"].([]any)[0].(map[string]any)["id"], any(second))
	_, page = i.call(auth.Viewer, http.MethodGet, "/rules?limit=1&cursor="+page["next_cursor"].(string), "")
	requireEqual(t, "next page", page["data"].([]any)[0].(map[string]any)["id"], any(first))
}
