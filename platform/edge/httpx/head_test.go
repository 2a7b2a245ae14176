package httpx_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/require"
)

// HEAD answers as GET does, without the body, and a stream ends with its header.
func TestHeadAnswersLikeGet(t *testing.T) {
	t.Parallel()
	rt, _ := newRouter(t)
	type byID struct {
		ID string `path:"id"`
	}
	httpx.Register(rt.API, httpx.Op{Method: http.MethodGet, Path: "/api/v1/items/{id}", ID: "item", Summary: "Item"},
		func(context.Context, *byID) (*echoOutput, error) { return &echoOutput{}, nil })
	ended := make(chan struct{})
	rt.Mux.Get("/demo/live", func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		w.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil {
			_, _ = fmt.Fprint(w, "data: {}\n\n")
			_ = http.NewResponseController(w).Flush()
		}
	})
	rt.Direct(http.MethodPost, "/api/v1/rush/", http.NotFound)
	require.NoError(t, rt.ServeDocs())
	server := httptest.NewServer(rt)
	t.Cleanup(server.Close)
	for path, want := range map[string]struct {
		status int
		kind   string
	}{
		"/api/v1/items/3": {200, "application/json"}, "/docs": {200, "text/html; charset=utf-8"}, "/openapi.json": {200, "application/json"},
		"/demo/live": {200, "text/event-stream"}, "/nowhere": {404, "application/problem+json"}, "/api/v1/items/3?x=1": {422, "application/problem+json"},
		"/api/v1/rush/abc": {405, "application/problem+json"}, "/things/1": {405, "application/problem+json"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, server.URL+path, nil)
		require.NoError(t, err)
		resp, err := server.Client().Do(req)
		require.NoError(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != want.status || resp.Header.Get("Content-Type") != want.kind {
			t.Errorf("HEAD %s: %d %q, want %d %q", path, resp.StatusCode, resp.Header.Get("Content-Type"), want.status, want.kind)
		}
	}
	<-ended
	w := httptest.NewRecorder()
	rt.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/docs", nil))
	if allow := w.Header().Get("Allow"); w.Code != http.StatusMethodNotAllowed || allow != "GET, HEAD" {
		t.Errorf("PUT /docs: %d, Allow %q", w.Code, allow)
	}
}

// A cache keeps the documentation's large files indefinitely, and revalidates the
// pages that name them.
func TestCachesKeepTheDocumentation(t *testing.T) {
	t.Parallel()
	rt, _ := newRouter(t)
	require.NoError(t, rt.ServeDocs())
	get := func(path, tag string) *httptest.ResponseRecorder {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		req.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		rt.ServeHTTP(w, req)
		return w
	}
	page := get("/docs", "")
	files := regexp.MustCompile(`"(/docs/ui/[0-9a-f]+/[^"]+)"`).FindAllStringSubmatch(page.Body.String(), -1)
	if len(files) != 2 {
		t.Fatalf("the page names %v", files)
	}
	for _, file := range files {
		w := get(file[1], "")
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Body.Len() < 100_000 {
			t.Errorf("%s: %d, %q, %d bytes", file[1], w.Code, w.Header().Get("Cache-Control"), w.Body.Len())
		}
	}
	for _, path := range []string{"/docs", "/openapi.json", "/docs/problems", "/docs/start.js"} {
		w := get(path, "")
		if again := get(path, w.Header().Get("ETag")); w.Header().Get("Cache-Control") != "no-cache" || again.Code != http.StatusNotModified {
			t.Errorf("%s: %q, then %d", path, w.Header().Get("Cache-Control"), again.Code)
		}
	}
}
