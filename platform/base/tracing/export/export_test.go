package export

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stampede/platform/workshop/require"
)

// stopWithin is three times the bound of the tracer's stop.
const stopWithin = 6 * time.Second

// A collector that accepts connections and never answers delays neither the
// callers that create spans nor the stop.
func TestHangingCollectorDelaysNeitherCallersNorStop(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(func() { close(release); srv.Close() })
	var log strings.Builder
	tracer, err := Open(t.Context(), Config{Settings: Settings{Endpoint: srv.URL, Share: 1}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	began := time.Now()
	for range 5 * queueSpans {
		_, span := tracer.Root(context.Background(), "rush")
		span.End(nil)
	}
	// A span takes some µs, also under the race detector; waiting for the
	// collector even once would take five seconds.
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("%d spans took %s", 5*queueSpans, took)
	}
	began = time.Now()
	require.NoError(t, tracer.Stop(t.Context()))
	if took := time.Since(began); took > stopWithin {
		t.Errorf("the stop took %s, want at most %s", took, stopWithin)
	}
	require.Equal(t, "logged in a minute", strings.Count(log.String(), "traces lost"), 1)
}

func TestEndpointsAreCompletedOrRefused(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"http://127.0.0.1:4318": "http://127.0.0.1:4318/v1/traces", "https://traces.example.com/": "https://traces.example.com/v1/traces",
		"https://host/otlp/v1/traces": "https://host/otlp/v1/traces", "127.0.0.1:4318": "", "grpc://host:4317": "", "http://": "",
	} {
		got, err := ParseEndpoint(given)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("ParseEndpoint(%q) = %q, %v; want %q", given, got, err, want)
		}
	}
	tracer, err := Open(t.Context(), Config{})
	require.Equal(t, "without an endpoint", fmt.Sprint(tracer == nil, err), "true <nil>")
	_, err = Open(t.Context(), Config{Settings: Settings{Endpoint: "nowhere"}})
	require.Equal(t, "an invalid endpoint is accepted", err == nil, false)
}
