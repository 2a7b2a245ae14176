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

// TestAttackTokens plays attacks with tokens that outlived their reason on one
// server.
func TestAttackTokens(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	in := shop.Serve(t, db.Config().ConnString(), pgtest.RedisURL(t))
	admin := shop.Mint(t, 1, auth.Admin)
	do := func(t *testing.T, method, path string, body any, want int) {
		t.Helper()
		if status, doc := in.Call(t, method, path, admin, body); status != want {
			t.Fatalf("%s %s: %d %v, want %d", method, path, status, doc, want)
		}
	}

	t.Run("a disabled account keeps a path", func(t *testing.T) {
		t.Parallel()
		item, other := in.Plan(t, 5, 0).ItemID, in.Plan(t, 5, 0).ItemID
		in.AwaitLoaded(t, item)
		in.AwaitLoaded(t, other)
		var user int64
		require.NoError(t, db.QueryRow(t.Context(), `INSERT INTO account.users DEFAULT VALUES RETURNING id`).Scan(&user))
		disabled := shop.Buyer{In: in, Token: shop.Mint(t, user, auth.Shopper)}
		no, path := disabled.Path(t, item)
		do(t, http.MethodPost, "/api/v1/admin/users/"+fmt.Sprint(user)+"/disable", map[string]any{"reason": "resells"}, http.StatusNoContent)
		if code := in.Send(t, path); code != "" {
			t.Fatalf("the path issued before is refused with %s", code)
		}
		pgtest.Eventually(t, 30*time.Second, func() bool {
			var status, reason string
			err := db.QueryRow(t.Context(), `SELECT status, reason FROM orders.orders WHERE order_no = $1::uuid`, no).Scan(&status, &reason)
			if err == nil && status != "refused" {
				t.Fatalf("the disabled account's order is %s %s", status, reason)
			}
			return err == nil && reason == "blocked"
		}, "the writer refuses the disabled account")

		do(t, http.MethodPost, "/api/v1/admin/users/"+fmt.Sprint(user)+"/enable", nil, http.StatusNoContent)
		enabled := shop.Buyer{In: in, Token: shop.Mint(t, user, auth.Shopper)}
		no, code := enabled.Rush(t, other)
		if code != "" {
			t.Fatalf("the enabled account is refused with %s", code)
		}
		enabled.AwaitStatus(t, no, "pending_payment", 30*time.Second)
	})

	t.Run("a stolen operator token", func(t *testing.T) {
		t.Parallel()
		const thief = 7001 // has no account
		stolen := shop.Mint(t, thief, auth.Operator)
		read := func() (int, string) {
			status, doc := in.Call(t, http.MethodGet, "/api/v1/admin/activities", stolen, nil)
			code, _ := doc["code"].(string)
			return status, code
		}
		if status, code := read(); status != http.StatusOK {
			t.Fatalf("before: %d %s", status, code)
		}
		do(t, http.MethodPost, "/api/v1/admin/users/7001/end-logins", nil, http.StatusNoContent)
		if status, code := read(); status != http.StatusUnauthorized {
			t.Errorf("after the user's tokens ended: %d %s", status, code)
		}
	})

	t.Run("a listed operator", func(t *testing.T) {
		t.Parallel()
		listed := shop.Mint(t, 7002, auth.Operator)
		do(t, http.MethodPost, "/api/v1/admin/blacklist", map[string]any{"kind": "user", "value": "7002", "reason": "left the shop"}, http.StatusCreated)
		for _, path := range []string{"/api/v1/admin/activities", "/api/v1/admin/audit", "/api/v1/admin/users"} {
			if status, doc := in.Call(t, http.MethodGet, path, listed, nil); status != http.StatusForbidden {
				t.Errorf("%s answers a listed operator with %d %v", path, status, doc)
			}
		}
		if status, doc := in.Call(t, http.MethodGet, "/api/v1/orders", listed, nil); status != http.StatusOK {
			t.Errorf("a listed user reads orders: %d %v", status, doc)
		}
	})
}
