package loadgen

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stampede/platform/workshop/pgtest"
)

// TestLateWinnerIsReleased: the pollers have ended with the run, and the run
// must not wait for a winner added after that.
func TestLateWinnerIsReleased(t *testing.T) {
	t.Parallel()
	r := &run{cfg: Config{Connections: 1}, Crowd: NewCrowd(CrowdConfig{BaseURL: "http://127.0.0.1:1", Items: []int64{1}, Shoppers: 1, Connections: 1, Token: mint})}
	f := r.startFollowers(t.Context())
	f.cancel()
	f.group.Wait()
	f.winners.Add(1)
	f.lines[0] <- newTrail(0)
	f.end()
	done := make(chan struct{})
	go func() { f.winners.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("the run waits for a winner that no poller follows")
	}
}

// TestPushesDuringAPaymentDoNotPayAgain: a winner gets a push about the order
// while the payment is already in progress.
func TestPushesDuringAPaymentDoNotPayAgain(t *testing.T) {
	t.Parallel()
	s := &shop{}
	var starts atomic.Int64
	asked, release := make(chan struct{}, 8), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/payments") {
			starts.Add(1)
			asked <- struct{}{}
			<-release
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	s.orders, s.rushed, s.paid, s.base = map[string]int{}, map[string]int{}, map[string]int{}, srv.URL
	r := &run{cfg: Config{Connections: 1}, Crowd: NewCrowd(CrowdConfig{
		BaseURL: srv.URL, Items: []int64{1}, Shoppers: 1, FirstUser: 1, Connections: 1, Token: mint,
	})}
	defer r.Close()
	r.FetchPaths(t.Context())
	f := r.startFollowers(t.Context())
	defer f.end()
	winner := newTrail(0)
	winner.pays, r.shoppers[0].answer = true, idQueued
	winner.heard(statusPending, true, time.Millisecond)
	f.add(winner)
	<-asked
	for range 5 {
		winner.heard(statusPending, true, time.Millisecond)
	}
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(f.lines[0]) == 0 }, "the poller has received the news")
	close(release)
	f.winners.Wait()
	if n := starts.Load(); n != 1 {
		t.Fatalf("%d payments were started for one order", n)
	}
	if status, _, _ := winner.state(); status != "paid" {
		t.Fatalf("the winner's last status is %q", status)
	}
}
