package app_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stampede/platform/base/app"
	"stampede/platform/workshop/require"
)

func TestLoopLogsAnOutageOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var log bytes.Buffer
		kick, done := make(chan struct{}, 1), make(chan error, 1)
		var at []time.Duration
		began := time.Now()
		loop := app.Loop{
			Every: time.Minute, Retry: 40 * time.Second, Kick: kick, Log: slog.New(slog.NewTextHandler(&log, nil)), Failed: "it did not work",
			Do: func(context.Context) error {
				at = append(at, time.Since(began))
				if n := len(at); n == 2 || n == 3 || n == 5 {
					return errors.New("down")
				}
				return nil
			},
		}
		go func() { done <- loop.Run(ctx) }()
		<-time.After(90 * time.Second)
		kick <- struct{}{}
		synctest.Wait()
		<-time.After(2 * time.Minute)
		synctest.Wait()
		cancel()
		require.NoError(t, <-done)
		want := []time.Duration{0, time.Minute, 90 * time.Second, 100 * time.Second, 160 * time.Second, 200 * time.Second}
		require.Equal(t, "done at", at, want)
		require.Equal(t, "logged for two outages", strings.Count(log.String(), "it did not work"), 2)
	})
}

// A loop that learns elsewhere when it is due does nothing by the clock, except again
// after a failure.
func TestLoopWithoutTicksRunsWhenDueAndAfterFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		due, done := make(chan struct{}, 1), make(chan error, 1)
		var at []time.Duration
		began := time.Now()
		loop := app.Loop{
			Every: time.Minute, Due: due, Log: slog.New(slog.DiscardHandler), Failed: "it did not work",
			Do: func(context.Context) error {
				at = append(at, time.Since(began))
				if n := len(at); n == 2 || n == 3 {
					return errors.New("down")
				}
				return nil
			},
		}
		go func() { done <- loop.Run(ctx) }()
		<-time.After(time.Hour)
		due <- struct{}{}
		<-time.After(time.Hour)
		cancel()
		require.NoError(t, <-done)
		want := []time.Duration{0, time.Hour, time.Hour + time.Minute, time.Hour + 2*time.Minute}
		require.Equal(t, "done at", at, want)
	})
}
