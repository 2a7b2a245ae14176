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
		want := []time.Duration{0, time.Minute, 90 * time.Second, 130 * time.Second, 190 * time.Second}
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

// Loops of up to a second make their rounds together, whenever they began, and not in the
// moment in which a sale opens.
func TestShortLoopsRunTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			begins, every time.Duration // after a full second
			rounds        []time.Duration
		}{
			{30 * time.Millisecond, 200 * time.Millisecond, []time.Duration{30, 100, 300, 500, 700, 900, 1100}},
			{450 * time.Millisecond, 500 * time.Millisecond, []time.Duration{450, 600, 1100, 1600}},
			{0, time.Second, []time.Duration{0, 100, 1100}},
		} {
			<-time.After(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
			second := time.Now()
			<-time.After(c.begins)
			ctx, cancel := context.WithTimeout(t.Context(), c.rounds[len(c.rounds)-1]*time.Millisecond-c.begins+time.Millisecond)
			var at []time.Duration
			require.NoError(t, app.Loop{Every: c.every, Do: func(context.Context) error {
				at = append(at, time.Since(second)/time.Millisecond)
				return nil
			}}.Run(ctx))
			cancel()
			require.Equal(t, "rounds in ms", at, c.rounds)
		}
	})
}
