package httpx_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/require"
)

type echoInput struct {
	ID   string `path:"id"`
	Body struct {
		Quantity int `json:"quantity" minimum:"1" maximum:"9"`
	}
}
type echoOutput struct {
	Body struct {
		User int64 `json:"user,string"`
	}
}

var errSoldOut = fault.New(fault.Gone, "sold-out", fault.T("Sold out", "已售罄"),
	fault.T("Every unit is paid for.", "每一件都已付款。"),
	fault.T("Look for another session.", "请关注其他场次。"))

func newRouter(t *testing.T, with ...httpx.Options) (*httpx.Router, *auth.Tokens) {
	t.Helper()
	tokens := auth.NewTokens([]byte(strings.Repeat("k1", 16)), time.Now)
	return newRouterFor(t, tokens, with...), tokens
}

// newRouterFor is newRouter with the test's tokens.
func newRouterFor(t *testing.T, tokens *auth.Tokens, with ...httpx.Options) *httpx.Router {
	t.Helper()
	rt := append(with, httpx.Options{})[0].NewRouter(tokens, slog.New(slog.DiscardHandler), "test", prometheus.NewRegistry())
	httpx.Register(rt.API, httpx.Op{Method: http.MethodPost, Path: "/things/{id}", ID: "echo", NoKey: "a test", Summary: "Echo", Role: auth.Shopper},
		func(ctx context.Context, in *echoInput) (*echoOutput, error) {
			switch in.ID {
			case "gone":
				return nil, errSoldOut.With("item_id", "9").After(1500 * time.Millisecond)
			case "broken":
				return nil, errors.New("password=hunter2 refused by 10.0.0.1")
			case "panic":
				panic("boom")
			}
			out := &echoOutput{}
			out.Body.User = auth.From(ctx).UserID
			return out, nil
		})
	httpx.Register(rt.API, httpx.Op{Method: http.MethodPost, Path: "/admin/{id}", ID: "admin", NoKey: "a test", Summary: "Admin", Role: auth.Operator, Audit: "test"},
		func(context.Context, *echoInput) (*echoOutput, error) { return &echoOutput{}, nil })
	return rt
}

// ends are revocations: login 2 has ended, and of login 3 it is not known.
type ends struct{}

func (ends) Revoked(_ context.Context, p auth.Principal) (bool, error) {
	if p.Login == 3 {
		return false, fault.Plain(fault.Unavailable, fault.T("Not known right now.", "暂时未知。")).After(time.Second)
	}
	return p.Login == 2, nil
}
func (ends) Version() uint64 { return 1 }

func TestAnswers(t *testing.T) {
	t.Parallel()
	tokens := auth.NewTokens([]byte(strings.Repeat("k1", 16)), time.Now, auth.RevokedBy(ends{}))
	rt := newRouterFor(t, tokens)
	httpx.Register(rt.API, httpx.Op{Method: http.MethodPost, Path: "/public/{id}", ID: "public", NoKey: "a test", Summary: "Public"},
		func(ctx context.Context, _ *echoInput) (out *echoOutput, _ error) {
			out = &echoOutput{}
			out.Body.User = auth.From(ctx).UserID
			return out, nil
		})
	login := func(id int64) string {
		return httpxtest.Token(t, tokens, auth.Principal{UserID: 7, Role: auth.Shopper, Login: id})
	}
	shopper := login(1)
	for _, c := range []struct {
		name, method, path, token, body, lang string
		status                                int
		want                                  []string
		header                                map[string]string
	}{
		{"fine", "POST", "/things/1", shopper, `{"quantity":1}`, "", 200, []string{`"user":"7"`}, map[string]string{"X-Content-Type-Options": "nosniff"}},
		{"no token", "POST", "/things/1", "", `{"quantity":1}`, "", 401, []string{`"code":"no-token"`}, map[string]string{"WWW-Authenticate": `Bearer realm="stampede"`}},
		{"no token and a bad body", "POST", "/things/1", "", `{"quantity":0}`, "", 401, []string{`"code":"no-token"`}, nil},
		{"a token in lower case", "POST", "/things/1", "bearer " + shopper, `{"quantity":1}`, "", 200, []string{`"user":"7"`}, nil},
		{"bad token", "POST", "/things/1", "x.y.z", `{"quantity":1}`, "", 401, []string{`"code":"bad-token"`}, nil},
		{"a revoked token", "POST", "/things/1", login(2), `{"quantity":1}`, "", 401, []string{`"code":"bad-token"`}, nil},
		{"a token that may be revoked", "POST", "/things/1", login(3), `{"quantity":1}`, "", 503, []string{`"code":"unavailable"`}, map[string]string{"Retry-After": "1"}},
		{"a public page", "POST", "/public/1", shopper, `{"quantity":1}`, "", 200, []string{`"user":"7"`}, nil},
		{"a public page with a revoked token", "POST", "/public/1", login(2), `{"quantity":1}`, "", 200, []string{`"user":"0"`}, nil},
		{"a public page with one that may be", "POST", "/public/1", login(3), `{"quantity":1}`, "", 200, []string{`"user":"0"`}, nil},
		{"wrong role", "POST", "/admin/1", shopper, `{"quantity":1}`, "", 403, []string{`"code":"forbidden"`}, nil},
		{"below the minimum", "POST", "/things/1", shopper, `{"quantity":0}`, "", 422, []string{`"code":"invalid"`, `body.quantity`}, nil},
		{"unknown field", "POST", "/things/1", shopper, `{"quantity":1,"price":1}`, "", 422, []string{`"code":"invalid"`, `price`}, nil},
		{"no JSON", "POST", "/things/1", shopper, `{"quantity":`, "", 400, []string{`"code":"bad-request"`}, nil},
		{"too large", "POST", "/things/1", shopper, `{"quantity":` + strings.Repeat(" ", 70_000) + `1}`, "", 413, []string{`"code":"too-large"`}, nil},
		{"a fault, in English", "POST", "/things/gone", shopper, `{"quantity":1}`, "de, en;q=0.5", 410, []string{`"title":"Sold out"`, `"item_id":"9"`, `"type":"/docs/problems#sold-out"`}, map[string]string{"Retry-After": "2", "Content-Type": "application/problem+json", "Content-Language": "en", "Vary": "Accept-Language"}},
		{"a fault, in Chinese", "POST", "/things/gone", shopper, `{"quantity":1}`, "zh-CN,zh;q=0.9", 410, []string{`"title":"已售罄"`}, map[string]string{"Content-Language": "zh"}},
		{"a flaw, in Chinese", "POST", "/things/1", shopper, `{}`, "zh", 422, []string{`"title":"请求内容有误"`}, map[string]string{"Content-Language": "zh", "Vary": "Accept-Language"}},
		{"an internal error", "POST", "/things/broken", shopper, `{"quantity":1}`, "", 500, []string{`"code":"internal"`}, nil},
		{"a panic", "POST", "/things/panic", shopper, `{"quantity":1}`, "", 500, []string{`"code":"internal"`}, nil},
		{"nothing there", "GET", "/nowhere", "", "", "", 404, []string{`"code":"not-found"`}, nil},
		{"another method", "DELETE", "/things/1", "", "", "", 405, []string{`"code":"method-not-allowed"`}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := httptest.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader(c.body))
			switch {
			case strings.Contains(c.token, " "): // with its scheme
				req.Header.Set("Authorization", c.token)
			case c.token != "":
				req.Header.Set("Authorization", "Bearer "+c.token)
			}
			req.Header.Set("Accept-Language", c.lang)
			w := httptest.NewRecorder()
			rt.ServeHTTP(w, req)
			body := w.Body.String()
			if w.Code != c.status {
				t.Errorf("status %d, want %d: %s", w.Code, c.status, body)
			}
			for _, want := range c.want {
				if !strings.Contains(body, want) {
					t.Errorf("the body lacks %s: %s", want, body)
				}
			}
			// Also without a route: a client that contacts the operator has an id to
			// quote.
			if id := w.Header().Get("X-Request-Id"); id == "" || c.status >= 400 && !strings.Contains(body, `"request_id":"`+id+`"`) {
				t.Errorf("X-Request-Id %q, and %s", id, body)
			}
			for k, want := range c.header {
				require.Equal(t, k, w.Header().Get(k), want)
			}
			if strings.Contains(body, "hunter2") {
				t.Error("the body reveals a cause that belongs in the log only")
			}
			if !json.Valid(w.Body.Bytes()) {
				t.Errorf("the body is not JSON: %s", body)
			}
		})
	}
}

func TestReadinessNamesTheComponentAtFault(t *testing.T) {
	t.Parallel()
	ready, components := true, map[string]error{"postgres": nil}
	h := httpx.Ops("example.com", nil, func(context.Context) (bool, map[string]error) { return ready, components })
	for _, step := range []struct {
		ready  bool
		redis  error
		status int
		body   string
	}{
		{true, nil, http.StatusOK, `{"ready":true,"degraded":false,"components":{"postgres":{"ok":true},"redis":{"ok":true}}}`},
		{true, errors.New("refused"), http.StatusOK, `{"ready":true,"degraded":true,"components":{"postgres":{"ok":true},"redis":{"ok":false,"why":"refused"}}}`},
		{false, errors.New("refused"), http.StatusServiceUnavailable, `{"ready":false,"degraded":true,"components":{"postgres":{"ok":true},"redis":{"ok":false,"why":"refused"}}}`},
	} {
		ready, components["redis"] = step.ready, step.redis
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		if w.Code != step.status || strings.TrimSpace(w.Body.String()) != step.body {
			t.Errorf("GET /readyz = %d %s, want %d %s", w.Code, w.Body, step.status, step.body)
		}
	}
}

// unreadable is a metric of a store that is down.
type unreadable struct{ desc *prometheus.Desc }

func (u unreadable) Describe(out chan<- *prometheus.Desc) { out <- u.desc }
func (u unreadable) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.NewInvalidMetric(u.desc, errors.New("the database is down"))
}

func TestAMetricThatCannotBeReadLeavesTheOthers(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	fine := prometheus.NewCounter(prometheus.CounterOpts{Name: "fine_total", Help: "Fine."})
	registry.MustRegister(fine, unreadable{prometheus.NewDesc("alarms", "Alarms.", nil, nil)})
	w := httptest.NewRecorder()
	httpx.Ops("example.com", registry, nil).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "fine_total 0") {
		t.Errorf("GET /metrics = %d %s", w.Code, w.Body)
	}
}

func TestLoopbackIsBoundOnBothFamiliesAndDrains(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-release
		_, _ = io.WriteString(w, "done")
	})
	s, err := httpx.Listen(t.Context(), "127.0.0.1:0", httpx.Connections{}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	s.Serve(h)
	answer := make(chan string, 1)
	go func() {
		req, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+s.Addr(), nil)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(resp.Body)
		answer <- string(body)
	}()
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(context.Background()) }()
	close(release)
	require.Equal(t, "the answer of the request in flight", <-answer, "done")
	require.NoError(t, <-stopped)
}
