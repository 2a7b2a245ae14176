package risk

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
)

// inForce is three times the time in which a change must be in force on every
// instance, as an allowance for a busy machine.
const inForce = 3 * time.Second

// A change on one instance is in force on another within a second: a new rule, a
// user who reaches its threshold, an edit, its removal.
func TestRulesReachEveryInstance(t *testing.T) {
	t.Parallel()
	y := setup(t)
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
	// Without a broadcast the poll finds the change.
	y.exec(`DELETE FROM risk.rules`)
	y.exec(`UPDATE risk.revision SET revision = revision + 1`)
	refuses(false, "a change that was not broadcast is found")
}

func TestRulesAndMarksExpire(t *testing.T) {
	t.Parallel()
	y := setup(t)
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
	i.clock.advance(2*time.Hour + time.Second) // the first rule has expired, and both closings have left the window
	if refused(2) {
		t.Fatal("the mark outlived its window")
	}
}
