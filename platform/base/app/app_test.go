package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stampede/platform/workshop/require"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestStopReversesTheOrderAndRunsOnce(t *testing.T) {
	t.Parallel()
	a := New(quiet())
	var order []string
	for _, name := range []string{"pools", "bus", "http"} {
		a.OnStop(name, func(context.Context) error { order = append(order, name); return nil })
	}
	a.OnStop("broken", func(context.Context) error { return errors.New("stuck") })
	first, second := a.Stop(t.Context()), a.Stop(t.Context())
	require.Equal(t, "order", order, []string{"http", "bus", "pools"})
	if first == nil || !strings.Contains(first.Error(), "stop broken: stuck") || second == nil {
		t.Errorf("Stop() = %v, then %v; want both to name the broken component", first, second)
	}
}

// A load balancer has time to notice that the process is not ready before it
// meets a closed port.
func TestListenerOutlivesReadiness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := New(quiet())
		closed := make(chan time.Duration, 1)
		began := time.Now()
		a.OnStop("listener", func(context.Context) error { closed <- time.Since(began); return nil })
		a.OnStop("readiness", Settings{DrainDelay: time.Second}.Notice)
		stopped := make(chan error)
		go func() { stopped <- a.Stop(t.Context()) }()
		synctest.Wait()
		ready, _ := a.Readiness(t.Context())
		require.Equal(t, "ready, and listeners closed, at first", fmt.Sprint(ready, len(closed)), "false 0")
		require.NoError(t, <-stopped)
		require.Equal(t, "the listener closed after", <-closed, time.Second)
	})
}

// A fault of a shared store must not take every instance out of the load balancer.
func TestReadinessEndsOnlyWithDrain(t *testing.T) {
	t.Parallel()
	a := New(quiet())
	a.OnReady("postgres", func(context.Context) error { return nil })
	var redis error
	a.OnReady("redis", func(context.Context) error { return redis })
	bad := errors.New("connection refused")
	for _, step := range []struct {
		redis, process error
	}{{nil, nil}, {bad, nil}, {bad, errDraining}, {nil, errDraining}} {
		redis = step.redis
		if step.process != nil {
			a.Drain()
		}
		ready, got := a.Readiness(t.Context())
		want := map[string]error{"postgres": nil, "redis": step.redis, "process": step.process}
		if ready != (step.process == nil) || !maps.Equal(got, want) {
			t.Errorf("Readiness() = %v, %v, want %v", ready, got, want)
		}
	}
}

// A component that hangs until the probe times out does not make the others
// look faulty.
func TestReadinessNamesOnlyTheHangingComponent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := New(quiet())
		a.OnReady("postgres", func(ctx context.Context) error { <-ctx.Done(); <-time.After(time.Minute); return ctx.Err() })
		a.OnReady("redis", func(ctx context.Context) error { return ctx.Err() })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, got := a.Readiness(ctx)
		if !errors.Is(got["postgres"], errNoAnswer) || got["redis"] != nil {
			t.Errorf("Readiness() = %v, want an error of postgres alone", got)
		}
		<-time.After(time.Minute) // the bubble's clock; the check ends
	})
}

func TestWorkerRestartsWithBackoffAfterErrorsAndPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := New(quiet())
		var runs atomic.Int32
		a.Go("workers", Worker{Name: "moody", Run: func(ctx context.Context) error {
			switch runs.Add(1) {
			case 1:
				return errors.New("first")
			case 2:
				panic("second")
			default:
				<-ctx.Done()
				return nil
			}
		}})
		synctest.Wait()
		require.Equal(t, "runs before the back-off", runs.Load(), 1)
		time.Sleep(firstBackoff + 2*firstBackoff) //nolint:forbidigo // the bubble's clock, not the wall's
		synctest.Wait()
		require.Equal(t, "runs after two back-offs", runs.Load(), 3)
		require.NoError(t, a.Stop(t.Context()))
	})
}
