package humancheck

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/workshop/require"
)

// ask gets a challenge over HTTP.
func ask(t *testing.T, rt *httpx.Router, path, from string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, path, nil)
	req.RemoteAddr = from
	rec := httptest.NewRecorder()
	rt.ServeHTTP(rec, req)
	return rec
}

func TestTheRouteForGuests(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config, _ *Deps) { c.ChallengesPerMinute, c.AuthHumanCheck = 4, Pow })
	log := slog.New(slog.DiscardHandler)
	limits := ratelimit.New(b.redis, log, prometheus.NewRegistry())
	rt := httpx.Options{Limiter: limits}.NewRouter(auth.NewTokens(testKey, time.Now), log, "test", b.reg)
	b.Routes(rt)
	for _, purpose := range []string{PurposeLogin, PurposeRegister, PurposeSMS} {
		res := ask(t, rt, challengePath+"?purpose="+purpose, "203.0.113.7:1234")
		var c Challenge
		if err := json.NewDecoder(res.Body).Decode(&c); err != nil || res.Code != http.StatusOK || c.Kind != Pow {
			t.Fatalf("%s: %d %+v %v", purpose, res.Code, c, err)
		}
		require.Equal(t, "Cache-Control for "+purpose, res.Header().Get("Cache-Control"), "no-store")
		b.wants(t, Pow, guest(purpose, "203.0.113.7"), b.solve(c), "ok", purpose)
	}
	for query, want := range map[string]int{
		"?purpose=rush": http.StatusUnprocessableEntity, "?purpose=": http.StatusUnprocessableEntity, "": http.StatusUnprocessableEntity,
	} {
		require.Equal(t, query, ask(t, rt, challengePath+query, "203.0.113.7:1234").Code, want)
	}
	for _, c := range []struct {
		from string
		want int
	}{
		{"203.0.113.7:1234", http.StatusOK}, {"203.0.113.7:4321", http.StatusTooManyRequests}, {"203.0.113.8:1234", http.StatusOK},
	} {
		require.Equal(t, "the next one from "+c.from, ask(t, rt, challengePath+"?purpose=login", c.from).Code, c.want)
	}
}
