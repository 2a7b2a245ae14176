package httpx_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/require"
)

func TestAnswersAreCountedByRouteAndNeverByPath(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	rt := httpx.NewRouter(auth.NewTokens([]byte(strings.Repeat("k1", 16)), time.Now), slog.New(slog.DiscardHandler), "test", reg)
	rt.Mux.Get("/orders/{no}", func(w http.ResponseWriter, r *http.Request) {
		switch r.PathValue("no") {
		case "1":
		case "2":
			_, _ = io.WriteString(w, "fine")
		case "3":
			w.WriteHeader(http.StatusTeapot)
		case "4":
			panic("boom")
		case "5":
			panic(http.ErrAbortHandler)
		case "6":
			_, _ = io.WriteString(w, "half of the answer")
			panic("boom")
		}
	})
	rt.Mux.Handle("/files/*", http.NotFoundHandler())
	rt.Bare.Post("/rush/{path}", func(http.ResponseWriter, *http.Request) {})
	httpx.Register(rt.API, httpx.Op{Method: http.MethodPost, Path: "/things/{id}", ID: "echo", NoKey: "a test", Summary: "Echo", Role: auth.Shopper}, echo)
	for _, request := range []string{
		"GET /orders/1", "GET /orders/2", "GET /orders/3", "GET /orders/4", "GET /orders/5", "GET /orders/6", "GET /files/a/b", "POST /things/9",
		"POST /rush/secret", "GET /nowhere", "PUT /orders/1",
	} {
		method, path, _ := strings.Cut(request, " ")
		func() {
			defer func() {
				// The client of an answer that had begun sees that it is not whole.
				if v := recover(); v != nil != (path >= "/orders/5" && path < "/orders/7") || v != nil && v != http.ErrAbortHandler { //nolint:errorlint // as net/http
					t.Errorf("%s panicked: %v", request, v)
				}
			}()
			rt.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), method, path, nil))
		}()
	}
	const want = `
# HELP stampede_http_requests_total Requests answered, by route, method and status. The rush is counted by code, in stampede_seckill_rush_answers_total.
# TYPE stampede_http_requests_total counter
stampede_http_requests_total{method="GET",route="/files/*",status="404"} 1
stampede_http_requests_total{method="GET",route="/orders/{no}",status="200"} 2
stampede_http_requests_total{method="GET",route="/orders/{no}",status="418"} 1
stampede_http_requests_total{method="GET",route="/orders/{no}",status="500"} 1
stampede_http_requests_total{method="POST",route="/things/{id}",status="401"} 1
`
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(want), "stampede_http_requests_total"))
	families, err := reg.Gather()
	require.NoError(t, err)
	timed := map[string]uint64{}
	for _, f := range families {
		if f.GetName() == "stampede_http_request_seconds" {
			for _, m := range f.GetMetric() {
				timed[m.GetLabel()[0].GetValue()] = m.GetHistogram().GetSampleCount()
			}
		}
	}
	require.Equal(t, "timed requests", timed, map[string]uint64{"/orders/{no}": 4, "/files/*": 1, "/things/{id}": 1})
}
