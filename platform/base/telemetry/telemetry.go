// Package telemetry makes the process's logger and its metrics registry.
package telemetry

import (
	"context"
	"io"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"stampede/platform/base/tracing"
)

// Settings are what is logged, and how.
type Settings struct {
	LogLevel  string `default:"info" enum:"debug,info,warn,error" env:"STAMPEDE_LOG_LEVEL" help:"Least severity that is logged: debug, info, warn or error."`
	LogFormat string `default:"text" enum:"text,json" env:"STAMPEDE_LOG_FORMAT" help:"text for people, json for machines."`
}

// Logger writes to w as the settings say.
func (s Settings) Logger(w io.Writer, requestID func(context.Context) string) *slog.Logger {
	return Logger(s.LogLevel, s.LogFormat, w, requestID)
}

// Logger writes to w in a format, "text" or "json", what is at least of a
// level: "debug", "info", "warn" or "error". Each line carries what requestID finds
// in its context, if requestID is given, and the trace's id.
func Logger(level, format string, w io.Writer, requestID func(context.Context) string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo // the command line allows no other word
	}
	opts := &slog.HandlerOptions{Level: l}
	var h slog.Handler = slog.NewTextHandler(w, opts)
	if format == "json" {
		h = slog.NewJSONHandler(w, opts)
	}
	return slog.New(contextHandler{h, requestID})
}

// contextHandler adds the ids that the context carries.
type contextHandler struct {
	slog.Handler
	requestID func(context.Context) string
}

func (h contextHandler) Handle(ctx context.Context, r slog.Record) error {
	if h.requestID != nil {
		if id := h.requestID(ctx); id != "" {
			r.AddAttrs(slog.String("request_id", id))
		}
	}
	if id := tracing.ID(ctx); id != "" {
		r.AddAttrs(slog.String("trace_id", id))
	}
	return h.Handler.Handle(ctx, r)
}

func (h contextHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return contextHandler{h.Handler.WithAttrs(attrs), h.requestID}
}

func (h contextHandler) WithGroup(name string) slog.Handler {
	return contextHandler{h.Handler.WithGroup(name), h.requestID}
}

// Registry returns a registry with the Go runtime's and the process's own
// metrics in it.
func Registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}
