package httpx_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stampede/platform/edge/httpx"
)

// The route that bypasses the router handles the requests that the router would have
// given it, and no others; a method that an address does not have names those it has.
func TestMethodsAndTheDirectRoute(t *testing.T) {
	t.Parallel()
	rt, _ := newRouter(t)
	rt.Mux.Get("/things/{id}", func(http.ResponseWriter, *http.Request) {})
	rt.Bare.Post("/bare/{path}", func(http.ResponseWriter, *http.Request) {})
	rt.Direct("/rush/", func(_ context.Context, _ *httpx.DirectRequest, reply *httpx.DirectAnswer) {
		reply.Status = http.StatusAccepted
	})
	for request, want := range map[string]struct {
		status int
		allow  string
	}{
		"POST /rush/abc":      {http.StatusAccepted, ""},
		"POST /rush/abc?x=1":  {http.StatusAccepted, ""},
		"POST /rush/a%2Fb":    {http.StatusAccepted, ""}, // one segment, by the router
		"GET /rush/abc":       {http.StatusMethodNotAllowed, "POST"},
		"POST /rush/":         {http.StatusNotFound, ""},
		"POST /rush/a/b":      {http.StatusNotFound, ""},
		"POST /rushes/abc":    {http.StatusNotFound, ""},
		"DELETE /things/1":    {http.StatusMethodNotAllowed, "GET, HEAD, POST"},
		"PATCH /things/a%2Fb": {http.StatusMethodNotAllowed, "GET, HEAD, POST"},
		"GET /bare/x":         {http.StatusMethodNotAllowed, "POST"},
		"BREW /bare/x":        {http.StatusMethodNotAllowed, "POST"},
	} {
		method, target, _ := strings.Cut(request, " ")
		w := httptest.NewRecorder()
		rt.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, target, nil))
		if w.Code != want.status || w.Header().Get("Allow") != want.allow {
			t.Errorf("%s: %d, Allow %q, want %d, %q", request, w.Code, w.Header().Get("Allow"), want.status, want.allow)
		}
	}
}
