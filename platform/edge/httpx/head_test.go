package httpx_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/httpxtest"
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
	rt.Direct("/api/v1/rush/", func(_ context.Context, _ *httpx.DirectRequest, reply *httpx.DirectAnswer) {
		reply.Status = http.StatusNotFound
	})
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
		a := httpxtest.Send(t, server.Client(), http.MethodHead, server.URL+path, "", "")
		if kind := a.Header.Get("Content-Type"); a.Status != want.status || kind != want.kind {
			t.Errorf("HEAD %s: %d %q, want %d %q", path, a.Status, kind, want.status, want.kind)
		}
	}
	<-ended
	w := httptest.NewRecorder()
	rt.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/docs", nil))
	if allow := w.Header().Get("Allow"); w.Code != http.StatusMethodNotAllowed || allow != "GET, HEAD" {
		t.Errorf("PUT /docs: %d, Allow %q", w.Code, allow)
	}
}

// A person who mistypes an address gets a page in the browser's language; a program gets a problem.
func TestMistypedAddress(t *testing.T) {
	t.Parallel()
	rt, _ := newRouter(t)
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	for _, c := range []struct{ path, accept, language, kind, says string }{
		{"/orderz", browser, "en", "text/html; charset=utf-8", "<h1>This page does not exist</h1>"},
		{"/orderz", browser, "zh-CN,zh;q=0.9", "text/html; charset=utf-8", `<html lang="zh">`},
		{"/orderz", "*/*", "en", "application/problem+json", `"code":"not-found"`},
		{"/api/v1/orderz", browser, "en", "application/problem+json", `"code":"not-found"`},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, c.path, nil)
		r.Header.Set("Accept", c.accept)
		r.Header.Set("Accept-Language", c.language)
		w := httptest.NewRecorder()
		rt.ServeHTTP(w, r)
		require.Equal(t, c.path+" for "+c.accept, w.Code, http.StatusNotFound)
		require.Equal(t, "its kind", w.Header().Get("Content-Type"), c.kind)
		require.Contains(t, "it", w.Body.String(), c.says)
		require.Contains(t, "its policy", w.Header().Get("Content-Security-Policy"), "default-src 'self'")
	}
}

// A cache revalidates the documentation, and clients get it compressed.
func TestCachesKeepTheDocumentation(t *testing.T) {
	t.Parallel()
	rt, _ := newRouter(t)
	require.NoError(t, rt.ServeDocs())
	get := func(path string, header ...string) httpxtest.Answer {
		return httpxtest.Ask(t, rt, "", http.MethodGet, path, nil, header...)
	}
	for path, has := range map[string]string{
		"/docs": `<script src="/docs/ui/swagger-ui-bundle.js">`, "/docs/ui/swagger-ui-bundle.js": "SwaggerUIBundle", "/docs/ui/swagger-ui.css": ".swagger-ui",
		"/openapi.json": `"openapi": "3.1.0"`, "/docs/problems": "sold-out", "/docs/start.js": "/openapi.json",
	} {
		a := get(path)
		again := get(path, "If-None-Match", a.Header.Get("ETag"))
		if a.Header.Get("Cache-Control") != "no-cache" || again.Status != http.StatusNotModified || !strings.Contains(string(a.Raw), has) {
			t.Errorf("%s: %q, then %d; %.300s", path, a.Header.Get("Cache-Control"), again.Status, a.Raw)
		}
		if small := get(path, "Accept-Encoding", "gzip, br"); len(a.Raw) > 1000 && (small.Header.Get("Content-Encoding") != "br" || len(small.Raw) >= len(a.Raw)) {
			t.Errorf("%s of %d bytes is sent as %q in %d", path, len(a.Raw), small.Header.Get("Content-Encoding"), len(small.Raw))
		}
	}
}
