package httpx_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// The route that bypasses the router handles the requests that the router would have
// given it, and no others.
func TestDirectIsTheOneRoute(t *testing.T) {
	t.Parallel()
	rt, _ := newRouter(t)
	rt.Direct(http.MethodPost, "/rush/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	for _, tt := range []struct {
		method, target string
		want           int
	}{
		{http.MethodPost, "/rush/abc", http.StatusAccepted},
		{http.MethodPost, "/rush/abc?x=1", http.StatusAccepted},
		{http.MethodPost, "/rush/a%2Fb", http.StatusAccepted}, // one segment, by the router
		{http.MethodGet, "/rush/abc", http.StatusMethodNotAllowed},
		{http.MethodPost, "/rush/", http.StatusNotFound},
		{http.MethodPost, "/rush/a/b", http.StatusNotFound},
		{http.MethodPost, "/rushes/abc", http.StatusNotFound},
	} {
		w := httptest.NewRecorder()
		rt.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), tt.method, tt.target, nil))
		if w.Code != tt.want {
			t.Errorf("%s %s: %d, want %d", tt.method, tt.target, w.Code, tt.want)
		}
	}
}
