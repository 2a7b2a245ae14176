package loadgen

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stampede/platform/base/app"
)

// TestLatencyCountsFromWhenAnAttemptWasDue keeps the only connection busy with the
// first attempt, and answers the others, which were due meanwhile, at once.
func TestLatencyCountsFromWhenAnAttemptWasDue(t *testing.T) {
	t.Parallel()
	const stall, every = 100 * time.Millisecond, time.Millisecond
	s := &shop{units: 10}
	open(t, s)
	first := make(chan struct{}, 1)
	first <- struct{}{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/rush/") {
			select {
			case <-first:
				_ = app.Sleep(r.Context(), stall)
			default:
			}
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	c := NewCrowd(CrowdConfig{BaseURL: srv.URL, ItemID: 1, Shoppers: 10, FirstUser: 100, Connections: 1, Token: mint})
	defer c.Close()
	c.FetchPaths(t.Context())
	v := c.fire(t.Context(), firing{every: every})
	// The tenth was due 9 ms after the first, and waited for the rest of the stall.
	if least := (stall - 9*every).Seconds() * 1000; v.Granted != 10 || v.Grant.P50 < least {
		t.Errorf("%+v, want each of 10 to have waited %v ms", v, least)
	}
}
