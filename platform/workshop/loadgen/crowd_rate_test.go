package loadgen

import (
	"context"
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
	c := NewCrowd(CrowdConfig{BaseURL: srv.URL, Items: []int64{1}, Shoppers: 10, FirstUser: 100, Connections: 1, Token: mint})
	defer c.Close()
	c.FetchPaths(t.Context())
	v := c.FireAt(t.Context(), float64(time.Second/every))
	// The tenth was due 9 ms after the first, and waited for the rest of the stall.
	if least := (stall - 9*every).Seconds() * 1000; v.Granted != 10 || v.Grant.P50 < least {
		t.Errorf("%+v, want each of 10 to have waited %v ms", v, least)
	}
}

// TestPaymentsAreDueAtARate lets winners pay, each once, and stops in the middle.
func TestPaymentsAreDueAtARate(t *testing.T) {
	t.Parallel()
	s := &shop{units: 20}
	c := NewCrowd(CrowdConfig{BaseURL: open(t, s), Items: []int64{1}, Shoppers: 20, FirstUser: 100, Connections: 4, Token: mint})
	defer c.Close()
	c.FetchPaths(t.Context())
	c.Fire(t.Context())
	began := time.Now()
	p := c.PayAt(t.Context(), c.Winners()[:10], 1000)
	if took := time.Since(began); p.Due != 10 || p.Orders != 10 || len(s.paid) != 10 || took < 9*time.Millisecond {
		t.Errorf("%+v for %d orders in %v", p, len(s.paid), took)
	}
	if p.OnTime > p.Orders || p.OnTimeShare() != float64(p.OnTime)/10 || p.Took.Count != 10 {
		t.Errorf("%+v", p)
	}
	for no, n := range s.paid {
		if n != 1 || s.orders[no] < 2 {
			t.Errorf("order %s was paid %d times and polled %d times", no, n, s.orders[no])
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p := c.PayAt(ctx, c.Winners()[10:], 1); p.Due > 1 || p.OnTimeShare() > 1 {
		t.Errorf("%+v after the end", p)
	}
}
