package payment

import (
	"net/http"
	"testing"
	"time"

	"stampede/payment/sandbox"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
)

// historyNamesMintedTokens does what shoppers do with orders, with a token of `stampede
// token`.
func historyNamesMintedTokens(t *testing.T, s *bundle) {
	s.plan.within = time.Hour
	t.Cleanup(func() { s.plan.within = 0 })
	as := func(user int64, method string, no ids.ID, path, body string) {
		t.Helper()
		token, err := s.tokens.Mint(auth.Principal{UserID: user, Role: auth.Shopper, Act: auth.ByCLI}, time.Minute)
		require.NoError(t, err)
		a, err := s.try(method, 0, s.url+"/api/v1/orders/"+no.String()+path, body, "Authorization", "Bearer "+token)
		if err != nil || a.status != http.StatusOK {
			t.Fatalf("%s: %d %v, %v", path, a.status, a.body, err)
		}
	}
	no, user := s.one(100)
	as(user, http.MethodPut, no, "/details", delivered)
	as(user, http.MethodPost, no, "/cancel", "")
	if got, want := s.history(no), "pending_payment by system; pending_payment by minted token; closed by minted token"; got != want {
		t.Errorf("history: %s; want %s", got, want)
	}
	no, user = s.one(500)
	as(user, http.MethodPut, no, "/details", delivered)
	_, url := s.startPayment(no, user)
	s.payAt(url, sandbox.Normal)
	s.until("the order is paid", func() bool { return s.status(no) == "paid" })
	as(user, http.MethodPost, no, "/refunds", "")
	if got, want := s.story(no), "refunding by minted token"; got != want {
		t.Errorf("history: %s; want %s", got, want)
	}
	s.refundsDone(no)
}
