package attack

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// TestAttackTokens plays attacks on one server, with tokens that outlived their reason
// and with more requests than one may have.
func TestAttackTokens(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	in := shop.Serve(t, db.Config().ConnString(), pgtest.RedisURL(t))
	admin := shop.Mint(t, 1, auth.Admin)
	do := func(t *testing.T, path string, body any, want int) {
		t.Helper()
		in.Do(t, http.MethodPost, "/api/v1/admin/"+path, admin, body, want)
	}

	t.Run("a disabled account keeps a path", func(t *testing.T) {
		t.Parallel()
		item, other := in.Plan(t, 5, 0).ItemID, in.Plan(t, 5, 0).ItemID
		in.AwaitLoaded(t, item)
		in.AwaitLoaded(t, other)
		user := pgtest.Read[int64](t, db, `INSERT INTO account.users DEFAULT VALUES RETURNING id`)
		disabled := shop.Buyer{In: in, Token: shop.Mint(t, user, auth.Shopper)}
		no, path := disabled.Path(t, item)
		do(t, "users/"+fmt.Sprint(user)+"/disable", map[string]any{"reason": "resells"}, http.StatusNoContent)
		require.Equal(t, "the answer to the path issued before", in.Send(t, path), "")
		pgtest.Eventually(t, 30*time.Second, func() bool {
			var status, reason string
			err := db.QueryRow(t.Context(), `SELECT status, reason FROM orders.orders WHERE order_no = $1::uuid`, no).Scan(&status, &reason)
			if err == nil && status != "refused" {
				t.Fatalf("the disabled account's order is %s %s", status, reason)
			}
			return err == nil && reason == "blocked"
		}, "the writer refuses the disabled account")

		do(t, "users/"+fmt.Sprint(user)+"/enable", nil, http.StatusNoContent)
		enabled := shop.Buyer{In: in, Token: shop.Mint(t, user, auth.Shopper)}
		enabled.Order(t, other)
	})

	t.Run("a stolen operator token", func(t *testing.T) {
		t.Parallel()
		const thief = 7001 // has no account
		stolen := shop.Mint(t, thief, auth.Operator)
		const read = "/api/v1/admin/activities"
		in.Do(t, http.MethodGet, read, stolen, nil, http.StatusOK)
		do(t, "users/7001/end-logins", nil, http.StatusNoContent)
		in.Do(t, http.MethodGet, read, stolen, nil, http.StatusUnauthorized)
	})

	t.Run("a listed operator", func(t *testing.T) {
		t.Parallel()
		listed := shop.Mint(t, 7002, auth.Operator)
		do(t, "blacklist", map[string]any{"kind": "user", "value": "7002", "reason": "left the shop"}, http.StatusCreated)
		for _, path := range []string{"/api/v1/admin/activities", "/api/v1/admin/audit", "/api/v1/admin/users"} {
			in.Do(t, http.MethodGet, path, listed, nil, http.StatusForbidden)
		}
		in.Do(t, http.MethodGet, "/api/v1/orders", listed, nil, http.StatusOK)
	})

	t.Run("ever new keys", func(t *testing.T) {
		t.Parallel()
		attackEverNewKeys(t, in)
	})
}
