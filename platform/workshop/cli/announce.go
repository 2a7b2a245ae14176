package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"

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
