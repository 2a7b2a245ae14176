package attack

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/identity/humancheck"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// TestDoorGuardsTheRush triggers every check of the door once on a real server:
// the packages' own tests do not show that they are wired.
func TestDoorGuardsTheRush(t *testing.T) {
	t.Parallel()
	in := shop.Serve(t, pgtest.DatabaseURL(t), pgtest.RedisURL(t), "--paths-per-minute=3", "--human-check-strength=low")
	g := guarded{in, shop.Mint(t, 1, auth.Operator), time.Now().Add(90 * time.Second).UTC()}
	open := in.Plan(t, 10, 0).ItemID
	in.AwaitLoaded(t, open)

	t.Run("human check", func(t *testing.T) {
		shopper, item := shop.Mint(t, 701, auth.Shopper), g.plan(t, map[string]any{"human_check": "pow"}, nil)
		status, said := g.path(t, shopper, item, "")
		requireCode(t, status, said, "human-check-required")
		challenge, _ := said["challenge"].(map[string]any)
		text, _ := challenge["challenge"].(string)
		difficulty, _ := challenge["difficulty"].(float64)
		solution, err := humancheck.Solve(t.Context(), text, int(difficulty))
		require.NoError(t, err)
		status, said = g.path(t, shopper, item, solution)
		requireCode(t, status, said, "")
	})
	t.Run("reservation", func(t *testing.T) {
		shopper := shop.Mint(t, 702, auth.Shopper)
		item := g.plan(t, nil, map[string]any{"reservation_opens_at": time.Now().UTC().Add(-time.Minute), "reservation_closes_at": g.opens})
		status, said := g.path(t, shopper, item, "")
		requireCode(t, status, said, "no-reservation-held")
		if status, said := in.Call(t, http.MethodPost, "/api/v1/items/"+item+"/reservation", shopper, nil); status != http.StatusCreated {
			t.Fatalf("reserve: %d %v", status, said)
		}
		status, said = g.path(t, shopper, item, "")
		requireCode(t, status, said, "")
	})
	t.Run("one exclusive activity", func(t *testing.T) {
		shopper, exclusive := shop.Mint(t, 703, auth.Shopper), map[string]any{"exclusive": true}
		status, said := g.path(t, shopper, g.plan(t, exclusive, nil), "")
		requireCode(t, status, said, "")
		status, said = g.path(t, shopper, g.plan(t, exclusive, nil), "")
		requireCode(t, status, said, "one-activity")
	})
	t.Run("blacklist, also after the path", func(t *testing.T) {
		shopper := shop.Mint(t, 704, auth.Shopper)
		no, path := shop.Buyer{In: in, Token: shopper}.Path(t, open)
		g.post(t, "/api/v1/admin/blacklist", map[string]any{"kind": "user", "value": "704", "reason": "resells"})
		status, said := g.path(t, shopper, open, "")
		requireCode(t, status, said, "not-available")
		if code := in.Send(t, path); code != "" {
			t.Fatalf("the path issued before is refused with %s", code)
		}
		shop.Buyer{In: in, Token: shopper}.AwaitStatus(t, no, "refused", 10*time.Second)
	})
}

// guarded is a server with an operator, and the opening time of its guarded sales.
type guarded struct {
	*shop.Instance
	operator string
	opens    time.Time
}

// post sends a request as the operator and returns the answer.
func (g guarded) post(t *testing.T, path string, body any) map[string]any {
	t.Helper()
	status, doc := g.Call(t, http.MethodPost, path, g.operator, body)
	if status >= 300 {
		t.Fatalf("%s: %d %v", path, status, doc)
	}
	return doc
}

// plan publishes an activity with these settings for itself and its session,
// and returns its item once the server issues paths for it.
func (g guarded) plan(t *testing.T, activity, session map[string]any) string {
	t.Helper()
	price := map[string]any{"amount": 9900, "currency": "CNY"}
	plan := map[string]any{
		"name": t.Name(), "starts_at": g.opens, "ends_at": g.opens.Add(time.Hour),
		"sessions": []any{with(map[string]any{
			"name": "one", "opens_at": g.opens, "closes_at": g.opens.Add(time.Hour),
			"items": []any{map[string]any{"sku": "guarded", "title": "Phone", "stock": 5, "list_price": price, "sale_price": price}},
		}, session)},
	}
	made := g.post(t, "/api/v1/admin/activities", with(plan, activity))
	g.post(t, "/api/v1/admin/activities/"+made["id"].(string)+"/publish", nil)                               //nolint:errcheck,forcetypeassert // a string, or the test is broken
	item := made["sessions"].([]any)[0].(map[string]any)["items"].([]any)[0].(map[string]any)["id"].(string) //nolint:errcheck,forcetypeassert // likewise
	g.AwaitLoaded(t, item)                                                                                   // in the catalogue, from which paths are issued
	return item
}

func with(doc, more map[string]any) map[string]any {
	maps.Copy(doc, more)
	return doc
}

// path requests a rush path with the solution of a human check.
func (g guarded) path(t *testing.T, token, item, solution string) (status int, doc map[string]any) {
	t.Helper()
	a := shop.Ask(t, shop.Checked(t), http.MethodPost, g.URL+"/api/v1/items/"+item+"/rush-path", token, `{}`, humancheck.Header, solution)
	return a.Status, a.Doc
}

// requireCode fails unless an answer is a problem of that code; "" is success.
func requireCode(t *testing.T, status int, doc map[string]any, code string) {
	t.Helper()
	if got, _ := doc["code"].(string); got != code || (code == "") != (status == http.StatusOK) {
		t.Fatalf("%d %v, want code %q", status, doc, code)
	}
}
