package httpx_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stampede/platform/edge/httpx"
)

// TestAtThreeTimesTheCapacity sends a real server, whose handlers share an
// artificially small capacity, three times its capacity. Callbacks and orders, half
// of the capacity, are all served; refused requests get a Retry-After.
func TestAtThreeTimesTheCapacity(t *testing.T) {
	t.Parallel()
	const (
		workers  = 2
		each     = 10 * time.Millisecond // 200 a second
		seconds  = 2
		offered  = 3 * workers * int(time.Second/each) * seconds
		critical = 6 // one in six: 100 a second
		// A client's patience. Without a bound the last request would wait twice as
		// long as the sending takes, and a quarter longer than this.
		patience = 3 * time.Second
	)
	rt, _ := newRouter(t, httpx.Bounded(httpx.Bounds{InFlight: 8}))
	capacity := make(chan struct{}, workers)
	work := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		capacity <- struct{}{}
		defer func() { <-capacity }()
		<-time.After(each)
		w.WriteHeader(http.StatusNoContent)
	}
	rt.Handle(httpx.Critical, http.MethodPost, "/api/v1/payments/{provider}/notify", work)
	rt.Handle(httpx.Critical, http.MethodGet, "/api/v1/orders/{no}", work)
	rt.Handle(httpx.Sheddable, http.MethodGet, "/api/v1/sessions", work)
	rt.Handle(httpx.Sheddable, http.MethodGet, "/api/v1/admin/orders", work)
	srv, err := httpx.Listen(t.Context(), "127.0.0.1:0", httpx.Connections{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	srv.Serve(rt)
	t.Cleanup(func() { _ = srv.Shutdown(t.Context()) })
	client := &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	t.Cleanup(client.CloseIdleConnections)

	type figures struct{ sent, served, shed, failed atomic.Int64 }
	var important, rest figures
	send := func(f *figures, method, path, body string) {
		f.sent.Add(1)
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+srv.Addr()+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := client.Do(req)
		if err != nil {
			f.failed.Add(1)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		var p struct{ Code string }
		switch {
		case resp.StatusCode == http.StatusNoContent:
			f.served.Add(1)
		case resp.StatusCode == http.StatusServiceUnavailable && json.NewDecoder(resp.Body).Decode(&p) == nil && p.Code == "overloaded" &&
			resp.Header.Get("Retry-After") >= "1" && resp.Header.Get("Retry-After") <= "3":
			f.shed.Add(1)
		default:
			t.Errorf("%s %s: %d, %+v", method, path, resp.StatusCode, p)
		}
	}
	// Sent by the clock, as shoppers do, and not when the server has answered.
	var wg sync.WaitGroup
	tick := time.NewTicker(4 * seconds * time.Second / time.Duration(offered))
	defer tick.Stop()
	for i := range offered {
		if i%4 == 0 { // four at a time: a ticker of 1 ms is late too often
			<-tick.C
		}
		wg.Go(func() {
			switch {
			case i%(2*critical) == 0:
				send(&important, http.MethodPost, "/api/v1/payments/sandbox/notify", `{"paid":true}`)
			case i%critical == 0:
				send(&important, http.MethodGet, "/api/v1/orders/1", "")
			case i%2 == 0:
				send(&rest, http.MethodGet, "/api/v1/sessions", "")
			default:
				send(&rest, http.MethodGet, "/api/v1/admin/orders", "")
			}
		})
	}
	wg.Wait()
	t.Logf("callbacks and orders: %d sent, %d served, %d refused, %d failed; browsing and admin: %d sent, %d served, %d refused, %d failed",
		important.sent.Load(), important.served.Load(), important.shed.Load(), important.failed.Load(),
		rest.sent.Load(), rest.served.Load(), rest.shed.Load(), rest.failed.Load())
	if bad := important.sent.Load() - important.served.Load(); 100*bad > important.sent.Load() {
		t.Errorf("%d of %d callbacks and orders were not served, want under 1 %%", bad, important.sent.Load())
	}
	if rest.failed.Load() > 0 || rest.shed.Load() < rest.sent.Load()/3 {
		t.Errorf("browsing and admin: %d of %d were refused with Retry-After, %d got no answer", rest.shed.Load(), rest.sent.Load(), rest.failed.Load())
	}
}

// slow sends nothing until it is released.
type slow struct{ release <-chan struct{} }

func (s slow) Read([]byte) (int, error) { <-s.release; return 0, io.EOF }

func TestASlowBodyHoldsNoPlaceOfACallback(t *testing.T) {
	t.Parallel()
	rt, _ := newRouter(t, httpx.Bounded(httpx.Bounds{InFlight: 1}))
	rt.Handle(httpx.Critical, http.MethodPost, "/api/v1/payments/{provider}/notify", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	})
	release, done := make(chan struct{}), make(chan struct{})
	call := func(body io.Reader) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		rt.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/payments/x/notify", body))
		return w
	}
	go func() { defer close(done); call(slow{release}) }()
	for range 3 {
		if w := call(strings.NewReader("paid")); w.Code != http.StatusOK || w.Body.String() != "paid" {
			t.Errorf("%d %q while another body is slow", w.Code, w.Body)
		}
	}
	close(release)
	<-done
	long := strings.Repeat("x", 200_000)
	if w := call(strings.NewReader(long)); w.Body.String() != long {
		t.Errorf("of a long body %d bytes arrived", w.Body.Len())
	}
}
