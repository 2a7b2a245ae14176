package risk

import (
	"net/http"
	"testing"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
)

// A dry run restricts no user and names exactly those that the same rule then
// applies to.
func TestDryRunEqualsTheRealHits(t *testing.T) {
	t.Parallel()
	y := setup(t)
	item := y.activity("sale", false)
	i := y.instance()
	for user := range int64(150) {
		i.unpaid(user+1, item, int(user%4)) // 0 to 3 unpaid closings
		y.open[user+1] = user % 5           // 0 to 4 open orders
	}
	y.exec(`UPDATE risk.holds SET closed_at = closed_at - interval '8 days' WHERE user_id % 10 = 3`) // not within a week
	for _, rule := range []string{
		`{"kind":"unpaid_holds","threshold":2,"window_seconds":604800,"action":"none"}`,
		`{"kind":"open_unpaid","threshold":3,"action":"none"}`,
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
		require.Equal(t, "users of "+rule, named, hit)
		require.Equal(t, "count of "+rule, dry["count"], any(float64(len(hit))))
		if code, doc := i.call(auth.Operator, http.MethodDelete, "/rules/"+id, ""); code != http.StatusOK {
			t.Fatalf("%d %v", code, doc)
		}
	}
	require.Equal(t, "marks of removed rules", y.count(`SELECT count(*) FROM risk.marks`), 0)
}

func TestDryRunNamesAHundredAndCountsAll(t *testing.T) {
	t.Parallel()
	y := setup(t)
	i := y.instance()
	for user := range int64(130) {
		y.open[user+1] = 2 + user
	}
	_, dry := i.call(auth.Viewer, http.MethodPost, "/rules/dry-run", `{"kind":"open_unpaid","threshold":2,"action":"none"}`)
	if dry["count"] != 130.0 || len(dry["data"].([]any)) != 100 || dry["data"].([]any)[0].(map[string]any)["user_id"] != "130" {
		t.Fatalf("%v users, %d named", dry["count"], len(dry["data"].([]any)))
	}
}
