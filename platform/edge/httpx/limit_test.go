package httpx_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// limited is a router with one route that a user may call three times an hour and an
// address five times, with the limits in a real Redis.
func limited(t *testing.T) (rt *httpx.Router, call func(user int64, addr, body string) *httptest.ResponseRecorder) {
	t.Helper()
	rt, tokens := newRouter(t, httpx.Options{Limiter: ratelimit.New(pgtest.Redis(t), slog.New(slog.DiscardHandler), prometheus.NewRegistry())})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/limited/{id}", ID: "limited", NoKey: "a test", Role: auth.Shopper,
		Limits: []httpx.Limit{
			{Rule: ratelimit.Rule{Name: "user", Count: 3, Per: time.Hour}, Of: httpx.OfUser},
			{Rule: ratelimit.Rule{Name: "address", Count: 5, Per: time.Hour}, Of: httpx.OfAddress},
		},
	}, func(context.Context, *echoInput) (*echoOutput, error) { return &echoOutput{}, nil })
	return rt, func(user int64, addr, body string) *httptest.ResponseRecorder {
		t.Helper()
		token := httpxtest.Token(t, tokens, auth.Principal{UserID: user, Role: auth.Shopper})
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/limited/1", strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+token)
		req.RemoteAddr = addr
		w := httptest.NewRecorder()
		rt.ServeHTTP(w, req)
		return w
	}
}

const fine = `{"quantity":1}`

func TestALimitedRouteTellsWhatIsLeft(t *testing.T) {
	t.Parallel()
	_, call := limited(t)
	for left := 2; left >= 0; left-- {
		w := call(7, "203.0.113.7:80", fine)
		want := `"user";r=` + strconv.Itoa(left)
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("RateLimit"), want) {
			t.Errorf("%d, RateLimit %s; want 200 with %s", w.Code, w.Header().Get("RateLimit"), want)
		}
	}
	w := call(7, "203.0.113.7:80", fine)
	if w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), `"code":"rate-limited"`) {
		t.Fatalf("the fourth: %d %s", w.Code, w.Body)
	}
	// Each one is refilled after 20 minutes, some seconds of which may have passed.
	retry, err := strconv.Atoi(w.Header().Get("Retry-After"))
	if err != nil || retry > 1200 || retry < 1190 {
		t.Errorf("Retry-After: %d, %v; want 1200", retry, err)
	}
	var reset int
	if _, err := fmt.Sscanf(w.Header().Get("RateLimit"), `"user";r=0;t=%d`, &reset); err != nil || reset > 3600 || reset < 3590 {
		t.Errorf("RateLimit: %s; want all back after 3600", w.Header().Get("RateLimit"))
	}
	require.Equal(t, "RateLimit-Policy", w.Header().Get("RateLimit-Policy"), `"user";q=3;w=3600, "address";q=5;w=3600`)
	if !strings.Contains(w.Body.String(), `"rule":"user"`) || !strings.Contains(w.Body.String(), `"request_id"`) {
		t.Errorf("the body lacks the rule or the request's id: %s", w.Body)
	}
}

func TestWhatIsNotValidDoesNotCount(t *testing.T) {
	t.Parallel()
	_, call := limited(t)
	for range 20 {
		for body, want := range map[string]int{`{"quantity":0}`: 422, `{"quantity":1,"price":1}`: 422, `{"quantity":`: 400} {
			require.Equal(t, body, call(7, "203.0.113.7:80", body).Code, want)
		}
	}
	if w := call(7, "203.0.113.7:80", fine); w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("RateLimit"), `"user";r=2`) {
		t.Errorf("the first valid one: %d, RateLimit %s", w.Code, w.Header().Get("RateLimit"))
	}
}

func TestAnAddressOfIPv6IsItsNetwork(t *testing.T) {
	t.Parallel()
	_, call := limited(t)
	for i := range int64(5) { // five users of one home
		require.Equal(t, "a user of the home", call(100+i, "[2001:db8:1:2::"+strconv.FormatInt(i+1, 16)+"]:80", fine).Code, http.StatusOK)
	}
	if w := call(200, "[2001:db8:1:2:ffff::1]:80", fine); w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), `"rule":"address"`) {
		t.Errorf("the sixth of the /64: %d %s", w.Code, w.Body)
	}
	require.Equal(t, "the neighboring /64", call(200, "[2001:db8:1:3::1]:80", fine).Code, http.StatusOK)
}

// unread fails the test when a refused request's body is read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body of a refused request was read")
	return 0, io.EOF
}

func TestWhoIsOverTheLimitIsToldBeforeTheBodyIsRead(t *testing.T) {
	t.Parallel()
	rt, call := limited(t)
	for range 4 {
		call(7, "203.0.113.7:80", fine)
	}
	token := httpxtest.Token(t, auth.NewTokens([]byte(strings.Repeat("k1", 16)), time.Now), auth.Principal{UserID: 7, Role: auth.Shopper})
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/limited/1", unread{t})
	req.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	rt.ServeHTTP(w, req)
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
