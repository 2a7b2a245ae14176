package outbound_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"stampede/platform/edge/outbound"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setup returns a client of a server that runs serve, and the number of its calls.
func setup(t *testing.T, serve http.HandlerFunc, change func(*outbound.Config)) (*outbound.Client, outbound.Request, *atomic.Int64) {
	t.Helper()
	calls := new(atomic.Int64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the client has left
		serve(w, r)
	}))
	t.Cleanup(srv.Close)
	cfg := outbound.Config{Peer: "test", Timeout: 5 * time.Second, Attempts: 1, MaxBytes: 100, Metrics: prometheus.NewRegistry()}
	change(&cfg)
	require.NoError(t, cfg.Validate())
	c := outbound.New(cfg)
	t.Cleanup(c.CloseIdleConnections)
	return c, outbound.Request{URL: srv.URL + "/secret", Body: []byte("b"), Type: "text/plain"}, calls
}

// good accepts 200.
func good(r outbound.Reply) error {
	if r.Status != http.StatusOK {
		return errors.New(http.StatusText(r.Status))
	}
	return nil
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	private := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	t.Cleanup(private.Close)
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		c, req, _ := setup(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, private.URL, status) }, func(*outbound.Config) {})
		err := c.Do(t.Context(), req, func(r outbound.Reply) error {
			if r.Status != status {
				t.Errorf("the caller sees %d, want %d", r.Status, status)
			}
			return nil
		})
		require.NoError(t, err)
	}
}

func TestBodiesAreCutOff(t *testing.T) {
	t.Parallel()
	c, req, _ := setup(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 1<<20)) }, func(*outbound.Config) {})
	err := c.Do(t.Context(), req, func(r outbound.Reply) error {
		if len(r.Body) != 100 {
			t.Errorf("%d bytes were read, want 100", len(r.Body))
		}
		return nil
	})
	require.NoError(t, err)
}

func TestFailuresAreTriedAgainThenTheBreakerOpens(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{false, true} {
		registry := prometheus.NewRegistry()
		c, req, calls := setup(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, func(c *outbound.Config) {
			c.Attempts, c.Backoff, c.BreakerFailures, c.BreakerDelay, c.Whole, c.Metrics = 2, time.Millisecond, 4, time.Hour, whole, registry
		})
		want := int64(4) // each attempt counts
		if whole {
			want = 8 // each call of two attempts counts
		}
		for calls.Load() < want {
			if err := c.Do(t.Context(), req, good); err == nil || !c.Available() && calls.Load() < want {
				t.Fatalf("whole %v: %v after %d attempts", whole, err, calls.Load())
			}
		}
		if err := c.Do(t.Context(), req, good); !errors.Is(err, circuitbreaker.ErrOpen) || c.Available() || calls.Load() != want {
			t.Errorf("whole %v: %v after %d attempts, want an open breaker after %d", whole, err, calls.Load(), want)
		}
		require.Equal(t, "series of one peer that only failed", testutil.CollectAndCount(registry, "stampede_outbound_seconds"), 1)
	}
}

func TestServiceThatHangs(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	hang := func(_ http.ResponseWriter, r *http.Request) {
		select {
		case arrived <- struct{}{}:
		case <-r.Context().Done():
		}
		<-r.Context().Done()
	}
	c, req, _ := setup(t, hang, func(c *outbound.Config) { c.Timeout, c.BreakerFailures, c.BreakerDelay = time.Minute, 2, time.Hour })
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Do(ctx, req, good) }()
		<-arrived
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	}
	require.Equal(t, "available after canceled callers", c.Available(), true)
	c, req, _ = setup(t, hang, func(c *outbound.Config) {
		c.Timeout, c.BreakerFailures, c.BreakerDelay = 100*time.Millisecond, 2, time.Hour
	})
	for range 2 {
		require.ErrorIs(t, c.Do(t.Context(), req, good), timeout.ErrExceeded)
	}
	require.Equal(t, "available after two timeouts", c.Available(), false)

	c.Probes()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.Do(ctx, req, good), context.Canceled)
	require.Equal(t, "available after a probe whose caller left", c.Available(), false)
}

func TestErrorsDoNotRepeatTheAddress(t *testing.T) {
	t.Parallel()
	c := outbound.New(outbound.Config{Peer: "test", Timeout: 5 * time.Second, Attempts: 1, MaxBytes: 1})
	for _, url := range []string{"http://127.0.0.1:1/secret", "http://secret:port/"} {
		if err := c.Do(t.Context(), outbound.Request{URL: url}, good); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	}
}
