// Package telemetry makes the process's logger and its metrics registry.
package telemetry

import (
	"context"
	"io"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"stampede/platform/httpx"
	"stampede/platform/telemetry/tracing"
)

// Logger writes to w in a format, "text" or "json", what is at least of a
// level: "debug", "info", "warn" or "error". Lines of a request carry its id,
// lines of what is followed the trace's.
func Logger(level, format string, w io.Writer) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo // the command line allows no other word
	}
	opts := &slog.HandlerOptions{Level: l}
	if format == "json" {
		return slog.New(requestHandler{slog.NewJSONHandler(w, opts)})
	}
	return slog.New(requestHandler{slog.NewTextHandler(w, opts)})
}

// requestHandler adds the ids that the context carries.
type requestHandler struct{ slog.Handler }

func (h requestHandler) Handle(ctx context.Context, r slog.Record) error {
	if id := httpx.RequestID(ctx); id != "" {
		r.AddAttrs(slog.String("request_id", id))
	}
	if id := tracing.ID(ctx); id != "" {
		r.AddAttrs(slog.String("trace_id", id))
	}
	return h.Handler.Handle(ctx, r)
}

func (h requestHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return requestHandler{h.Handler.WithAttrs(attrs)}
}

func (h requestHandler) WithGroup(name string) slog.Handler {
	return requestHandler{h.Handler.WithGroup(name)}
}

// Registry returns a registry with the Go runtime's and the process's own
// metrics in it.
func Registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}
