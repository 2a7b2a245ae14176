package attack

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/identity/humancheck"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// guardsTheRush triggers every check of the door once on a real server:
// the packages' own tests do not show that they are wired.
func guardsTheRush(t *testing.T, in *shop.Instance) {
	t.Helper()
	g := guarded{in, shop.Mint(t, 1, auth.Operator), time.Now().Add(90 * time.Second).UTC()}
	open := in.Plan(t, 10, 0).ItemID
	in.AwaitLoaded(t, open)

	t.Run("human check", func(t *testing.T) {
		shopper, item := shop.Mint(t, 701, auth.Shopper), g.plan(t, map[string]any{"human_check": "pow"}, nil)
		asked := challengeIn(t, g.path(t, shopper, item, "", "human-check-required"))
		solution, err := humancheck.Solve(t.Context(), asked.Challenge, asked.Difficulty)
		require.NoError(t, err)
		g.path(t, shopper, item, solution, "")
	})
	t.Run("reservation", func(t *testing.T) {
		shopper := shop.Mint(t, 702, auth.Shopper)
		item := g.plan(t, nil, map[string]any{"reservation_opens_at": time.Now().UTC().Add(-time.Minute), "reservation_closes_at": g.opens})
		g.path(t, shopper, item, "", "no-reservation-held")
		in.Do(t, http.MethodPost, "/api/v1/items/"+item+"/reservation", shopper, nil, http.StatusCreated)
		g.path(t, shopper, item, "", "")
	})
	t.Run("one exclusive activity", func(t *testing.T) {
		shopper, exclusive := shop.Mint(t, 703, auth.Shopper), map[string]any{"exclusive": true}
		g.path(t, shopper, g.plan(t, exclusive, nil), "", "")
		g.path(t, shopper, g.plan(t, exclusive, nil), "", "one-activity")
	})
	t.Run("blacklist, also after the path", func(t *testing.T) {
		shopper := shop.Mint(t, 704, auth.Shopper)
		no, path := shop.Buyer{In: in, Token: shopper}.Path(t, open)
		g.Do(t, http.MethodPost, "/api/v1/admin/blacklist", g.operator, map[string]any{"kind": "user", "value": "704", "reason": "resells"}, http.StatusCreated)
		g.path(t, shopper, open, "", "not-available")
		require.Equal(t, "the answer to the path issued before", in.Send(t, path), "")
		shop.Buyer{In: in, Token: shopper}.AwaitStatus(t, no, "refused", 10*time.Second)
	})
}

// guarded is a server with an operator, and the opening time of its guarded sales.
type guarded struct {
	*shop.Instance
	operator string
	opens    time.Time
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
	item := g.Publish(t, with(plan, activity))
	g.AwaitLoaded(t, item) // in the catalogue, from which paths are issued
	return item
}

func with(doc, more map[string]any) map[string]any {
	maps.Copy(doc, more)
	return doc
}

// path requests a rush path with the solution of a human check. The answer must be a problem of that code, or a path for "".
func (g guarded) path(t *testing.T, token, item, solution, want string) map[string]any {
	t.Helper()
	a := httpxtest.Send(t, shop.Checked(t), http.MethodPost, g.URL+"/api/v1/items/"+item+"/rush-path", token, `{}`, humancheck.Header, solution)
	code, _ := a.Doc["code"].(string)
	require.Equal(t, "the code of "+string(a.Raw), code, want)
	require.Equal(t, "a path in "+string(a.Raw), a.Status == http.StatusOK, want == "")
	return a.Doc
}
