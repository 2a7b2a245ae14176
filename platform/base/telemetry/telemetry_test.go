package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/telemetry"
	"stampede/platform/base/tracing"
	"stampede/platform/base/tracing/export"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/require"
)

// bench is a router with a route for each way of failing, and its log.
func bench(t *testing.T, level string) (*httpx.Router, *bytes.Buffer) {
	t.Helper()
	var lines bytes.Buffer
	log := telemetry.Logger(level, "json", &lines, httpx.RequestID)
	rt := httpx.NewRouter(auth.NewTokens([]byte(strings.Repeat("k1", 16)), time.Now), log, "test", prometheus.NewRegistry())
	type none struct{}
	type counted struct {
		N int `query:"n"`
	}
	httpx.Register(rt.API, httpx.Op{Method: http.MethodGet, Path: "/fails", ID: "fails"}, func(context.Context, *none) (*none, error) {
		return nil, errors.New("the disk is gone")
	})
	httpx.Register(rt.API, httpx.Op{Method: http.MethodGet, Path: "/needs-a-number", ID: "number"}, func(context.Context, *counted) (*none, error) {
		return nil, nil
	})
	httpx.Register(rt.API, httpx.Op{Method: http.MethodGet, Path: "/needs-a-token", ID: "token", Role: auth.Shopper}, func(context.Context, *none) (*none, error) {
		return nil, nil
	})
	rt.Mux.Get("/panics", func(http.ResponseWriter, *http.Request) { panic("boom") })
	rt.Mux.Get("/fine", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	rt.Bare.Post("/rush/{path}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	return rt, &lines
}

func ask(t *testing.T, rt *httpx.Router, method, path, id string) (answer *httptest.ResponseRecorder, problem struct {
	RequestID string `json:"request_id"`
},
) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	if id != "" {
		r.Header.Set("X-Request-Id", id)
	}
	answer = httptest.NewRecorder()
	rt.ServeHTTP(answer, r)
	if answer.Body.Len() > 0 {
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &problem))
	}
	return answer, problem
}

// The id that a shopper reports to the operator leads to the log lines: the
// header, the problem and each log line of the request carry the same id.
func TestAnErrorAndItsLogLinesCarryTheRequestID(t *testing.T) {
	t.Parallel()
	for path, message := range map[string]string{"/fails": "request failed", "/panics": "handler panicked", "/needs-a-number?n=x": "", "/needs-a-token": ""} {
		for _, given := range []string{"", "shop-7f3a/1", strings.Repeat("x", 65), "two words", "line\nbreak"} {
			rt, lines := bench(t, "info")
			answer, problem := ask(t, rt, http.MethodGet, path, given)
			id := answer.Header().Get("X-Request-Id")
			if id == "" || problem.RequestID != id || (id == given) != (given == "shop-7f3a/1") {
				t.Errorf("%s with id %q: header %q, problem %q", path, given, id, problem.RequestID)
			}
			if message == "" {
				require.Equal(t, path+": logged, although a refusal must only be counted", lines.String(), "")
				continue
			}
			var line struct {
				Msg       string `json:"msg"`
				RequestID string `json:"request_id"`
			}
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Msg != message || line.RequestID != id {
				t.Errorf("%s: logged %s (%v), want %q with the id %q", path, lines, err, message, id)
			}
		}
	}
}

func TestDebugLogsEachRequestExceptTheRush(t *testing.T) {
	t.Parallel()
	rt, lines := bench(t, "debug")
	answer, _ := ask(t, rt, http.MethodGet, "/fine", "")
	var line struct {
		Msg, Method, Route string
		Status             int
		RequestID          string `json:"request_id"`
	}
	if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Msg != "request" || line.Route != "/fine" || line.Status != http.StatusNoContent ||
		line.RequestID != answer.Header().Get("X-Request-Id") {
		t.Errorf("logged %s (%v)", lines, err)
	}
	lines.Reset()
	if answer, _ := ask(t, rt, http.MethodPost, "/rush/secret", "mine"); lines.Len() > 0 || len(answer.Header()) > 0 {
		t.Errorf("the rush must neither log nor set headers, got %s and %v", lines, answer.Header())
	}
}

func TestLogLinesOfATraceCarryItsID(t *testing.T) {
	t.Parallel()
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(collector.Close)
	var lines bytes.Buffer
	log := telemetry.Logger("info", "text", &lines, nil)
	tracer, err := export.Open(t.Context(), export.Config{Settings: export.Settings{Endpoint: collector.URL, Share: 1}, Log: log})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tracer.Stop(context.Background()) })
	ctx, span := tracer.Root(t.Context(), "request")
	log.InfoContext(ctx, "something happened")
	span.End(nil)
	if want := "trace_id=" + tracing.ID(ctx); len(want) != len("trace_id=")+32 || !strings.Contains(lines.String(), want) {
		t.Errorf("logged %q, want %s", lines.String(), want)
	}
	lines.Reset()
	log.InfoContext(t.Context(), "something else")
	require.Equal(t, lines.String()+" has a trace", strings.Contains(lines.String(), "trace_id"), false)
}
