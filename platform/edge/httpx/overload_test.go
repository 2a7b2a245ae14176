package httpx_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"stampede/platform/edge/httpx"
)

// TestOverloadRefusesBrowsingAndServesCallbacks: the gate's rules have tests of their own;
// here requests get there by their route's class, and a refusal says when to come back.
func TestOverloadRefusesBrowsingAndServesCallbacks(t *testing.T) {
	t.Parallel()
	rt, _ := newRouter(t, httpx.Options{Bounds: httpx.Bounds{InFlight: 2}})
	entered, release := make(chan struct{}, 4), make(chan struct{})
	hang := func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusNoContent)
	}
	rt.Handle(httpx.Critical, http.MethodPost, "/api/v1/payments/{provider}/notify", hang)
	rt.Handle(httpx.Sheddable, http.MethodGet, "/api/v1/sessions", hang)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // of a request that should have been refused
	t.Cleanup(cancel)
	call := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		rt.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, path, nil))
		return w
	}
	var all sync.WaitGroup
	for _, route := range []string{"GET /api/v1/sessions", "POST /api/v1/payments/sandbox/notify"} { // browsing has half of the places
		method, path, _ := strings.Cut(route, " ")
		all.Go(func() {
			if w := call(method, path); w.Code != http.StatusNoContent {
				t.Errorf("%s: %d %s", route, w.Code, w.Body)
			}
		})
		<-entered
		w := call(http.MethodGet, "/api/v1/sessions")
		if after := w.Header().Get("Retry-After"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"code":"overloaded"`) || after < "1" || after > "3" {
			t.Errorf("more browsing: %d %s, Retry-After %q", w.Code, w.Body, after)
		}
	}
	close(release)
	all.Wait()
}
