package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
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
	if diff := cmp.Diff([]string{"http", "bus", "pools"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if first == nil || !strings.Contains(first.Error(), "stop broken: stuck") || second == nil {
		t.Errorf("Stop() = %v, then %v; want both to name the broken part", first, second)
	}
}

func TestReadinessNamesEachComponentAndEndsWithDrain(t *testing.T) {
	t.Parallel()
	a := New(quiet())
	a.OnReady("postgres", func(context.Context) error { return nil })
	bad := errors.New("connection refused")
	var redis error
	a.OnReady("redis", func(context.Context) error { return redis })
	if states, ready := a.Readiness(t.Context()); !ready || states["redis"] != "ok" {
		t.Errorf("Readiness() = %v, %v; want ready", states, ready)
	}
	redis = bad
	if states, ready := a.Readiness(t.Context()); ready || states["redis"] != bad.Error() || states["postgres"] != "ok" {
		t.Errorf("Readiness() = %v, %v; want redis alone at fault", states, ready)
	}
	redis = nil
	a.Drain()
	if states, ready := a.Readiness(t.Context()); ready || states["process"] != "draining" {
		t.Errorf("Readiness() = %v, %v; want draining", states, ready)
	}
}

func TestAWorkerIsStartedAgainWithBackoffAfterErrorsAndPanics(t *testing.T) {
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
		if n := runs.Load(); n != 1 {
			t.Fatalf("runs before the back-off = %d, want 1", n)
		}
		time.Sleep(firstBackoff + 2*firstBackoff) //nolint:forbidigo // the bubble's clock, not the wall's
		synctest.Wait()
		if n := runs.Load(); n != 3 {
			t.Fatalf("runs after two back-offs = %d, want 3", n)
		}
		if err := a.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
