package httpx_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/redisx"
	"stampede/platform/workshop/redistest"
	"stampede/platform/workshop/require"
)

// A store that is down is reported as such, whatever route needs it; every other
// error is a failure of the server, which a retry does not fix.
func TestUnreachableStoreAnswers503(t *testing.T) {
	t.Parallel()
	rt, _ := newRouter(t)
	var answer error
	handler := func(context.Context, *echoInput) (*echoOutput, error) { return nil, answer }
	httpx.Register(rt.API, httpx.Op{Method: http.MethodPost, Path: "/plain/{id}", ID: "plain", NoKey: "a test", Summary: "Plain"}, handler)
	httpx.Register(rt.API, httpx.Op{Method: http.MethodPost, Path: "/worded/{id}", ID: "worded", NoKey: "a test", Summary: "Worded", Away: fault.T("Ask the shop.", "请联系商家。")}, handler)
	ask := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		rt.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(`{"quantity":1}`)))
		return w
	}
	full := redistest.Start(t).Client
	require.NoError(t, full.ConfigSet(t.Context(), "maxmemory", "1").Err())
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for name, c := range map[string]struct {
		err    error
		status int
	}{
		"connection refused":  {refused, 503},
		"cut in the middle":   {io.ErrUnexpectedEOF, 503},
		"too late":            {context.DeadlineExceeded, 503},
		"postgres stops":      {&pgconn.PgError{Code: "57P01"}, 503},
		"postgres is full":    {&pgconn.PgError{Code: "53300"}, 503},
		"postgres reads only": {&pgconn.PgError{Code: "25006"}, 503},
		"a row is locked":     {&pgconn.PgError{Code: "55P03"}, 503},
		"redis is full":       {full.Set(t.Context(), "k", "v", 0).Err(), 503},
		"for a script too":    {full.Eval(t.Context(), `return redis.call('SET', KEYS[1], 'v')`, []string{"k"}).Err(), 503},
		"a wrong script":      {full.Eval(t.Context(), `return redis.call('NONE')`, nil).Err(), 500},
		"a wrong statement":   {&pgconn.PgError{Code: "42601"}, 500},
		"a broken rule":       {&pgconn.PgError{Code: "23514"}, 500},
		"redis is closed":     {redis.ErrClosed, 503},
		"a node of a cluster": {fmt.Errorf("%w: reset", redisx.ErrNoAnswer), 503},
		"redis has no key":    {redis.Nil, 500},
		"a client that left":  {context.Canceled, 500},
		"an answer":           {fault.ErrStale.Because(refused), 409},
	} {
		answer = fmt.Errorf("module: read: %w", c.err)
		plain, worded := ask("/plain/1"), ask("/worded/1")
		if plain.Code != c.status || worded.Code != c.status {
			t.Errorf("%s: %d and %d, want %d", name, plain.Code, worded.Code, c.status)
			continue
		}
		if c.status == http.StatusServiceUnavailable && (plain.Header().Get("Retry-After") != "1" ||
			!strings.Contains(plain.Body.String(), "cannot be reached right now") || !strings.Contains(worded.Body.String(), "Ask the shop.")) {
			t.Errorf("%s: %s %s", name, plain.Body, worded.Body)
		}
		w := httptest.NewRecorder()
		if httpx.WriteProblem(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), answer); w.Code != c.status {
			t.Errorf("%s: a plain handler: %d, want %d", name, w.Code, c.status)
		}
		if err := httpx.Unreachable(fault.T("The list", "列表"), answer); (fault.From(err).Kind == fault.Unavailable) != (c.status == 503) {
			t.Errorf("%s: a handler's sentence: %v", name, err)
		}
	}
}
