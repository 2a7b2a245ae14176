package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"stampede/platform/base/telemetry"
)

// announcer prints what the operator who started a server waits for: as
// sentences, or with --log-format json as log lines, so that a container's
// combined log stays machine-readable. It ignores --log-level.
type announcer struct {
	out   io.Writer
	lines *slog.Logger // nil for sentences
}

func announce(out io.Writer, format string) announcer {
	a := announcer{out: out}
	if format == "json" {
		a.lines = telemetry.Logger("info", format, out, nil)
	}
	return a
}

// say prints the text with its newline, or the message with its attributes.
func (a announcer) say(ctx context.Context, text, message string, args ...any) {
	if a.lines != nil {
		a.lines.InfoContext(ctx, message, args...) //nolint:sloglint // a constant of each caller
		return
	}
	_, _ = fmt.Fprintln(a.out, text) // ignore a closed stream
}

// serveToTheEnd serves, and announces the beginning and the end of the stop of
// a server that was ready.
func serveToTheEnd(ctx context.Context, io Streams, format string, serve Server, start Stack, show func(Parts) error) error {
	said := announce(io.Err, format)
	var ready atomic.Bool
	var began time.Time
	told := make(chan struct{})
	forget := context.AfterFunc(ctx, func() {
		defer close(told)
		if began = time.Now(); ready.Load() {
			said.say(ctx, "Stopping: requests in flight finish, then sockets, lanes, consumers and stores.", "stopping")
		}
	})
	err := serve(ctx, io, start, func(parts Parts) error {
		if err := show(parts); err != nil {
			return err
		}
		ready.Store(true)
		return nil
	})
	if forget() {
		return err // it ended on its own, and err says why
	}
	<-told
	if err == nil && ready.Load() {
		took := time.Since(began)
		said.say(ctx, fmt.Sprintf("Stopped in %.1f s.", took.Seconds()), "stopped", "took_seconds", took.Seconds())
	}
	return err
}
