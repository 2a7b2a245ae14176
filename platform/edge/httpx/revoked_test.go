package httpx_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/require"
)

// ends maps a login to the state that a test wants.
type ends map[int64]error

var (
	errEnded = fault.New(fault.Internal, "ended", fault.T("The sale has ended", "抢购已结束"),
		fault.T("Only a mark for this test.", "仅供测试。"),
		fault.T("Look for another session; an order that was granted stays payable.", "请关注其他场次；已抢到的订单仍可付款。"))
	errCutOff = fault.Plain(fault.Unavailable, fault.T("Not known right now.", "暂时未知。")).After(time.Second)
)

func (e ends) Revoked(_ context.Context, p auth.Principal) (bool, error) {
	if errors.Is(e[p.Login], errEnded) {
		return true, nil
	}
	return false, e[p.Login]
}
func (ends) Version() uint64 { return 1 }

// TestTokensOfEndedLoginsAreRefused on routes that need one, and only there: a
// public page stays public for a client with a revoked token.
func TestTokensOfEndedLoginsAreRefused(t *testing.T) {
	t.Parallel()
	tokens := auth.NewTokens([]byte(strings.Repeat("k1", 16)), time.Now, auth.RevokedBy(ends{2: errEnded, 3: errCutOff}))
	rt := newRouterFor(t, tokens)
	httpx.Register(rt.API, httpx.Op{Method: http.MethodGet, Path: "/public", ID: "public", Summary: "Public"},
		func(ctx context.Context, _ *struct{}) (*echoOutput, error) {
			out := &echoOutput{}
			out.Body.User = auth.From(ctx).UserID
			return out, nil
		})
	for _, c := range []struct {
		name             string
		login            int64
		status           int
		code, retryAfter string
		public           string
	}{
		{"in force", 1, http.StatusOK, `"user":"7"`, "", `"user":"7"`},
		{"ended", 2, http.StatusUnauthorized, `"code":"bad-token"`, "", `"user":"0"`},
		{"not known", 3, http.StatusServiceUnavailable, `"code":"unavailable"`, "1", `"user":"0"`},
	} {
		token, err := tokens.Mint(auth.Principal{UserID: 7, Role: auth.Shopper, Login: c.login}, time.Minute)
		require.NoError(t, err)
		call := func(method, path, body string) *httptest.ResponseRecorder {
			req := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
			req.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			rt.ServeHTTP(w, req)
			return w
		}
		w := call(http.MethodPost, "/things/1", `{"quantity":1}`)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.code) || w.Header().Get("Retry-After") != c.retryAfter {
			t.Errorf("%s: %d %s, Retry-After %q", c.name, w.Code, w.Body, w.Header().Get("Retry-After"))
		}
		if w := call(http.MethodGet, "/public", ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), c.public) {
			t.Errorf("%s, on a public route: %d %s", c.name, w.Code, w.Body)
		}
	}
}
