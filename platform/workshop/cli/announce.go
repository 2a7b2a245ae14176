package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"stampede/platform/base/telemetry"
)

// announcer says what somebody who started a server waits for: in sentences, or
// with --log-format json as lines of the log's own form, so that a log in which
// everything of a container is gathered stays readable to machines. It says so
// whatever --log-level is.
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
	_, _ = fmt.Fprintln(a.out, text) // who closed the stream does not want to know
}
