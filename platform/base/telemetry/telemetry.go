// Package telemetry creates the process's logger and its metrics registry.
package telemetry

import (
	"context"
	"io"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"stampede/platform/base/tracing"
)

// Settings configure the logger.
type Settings struct {
	LogLevel  string `default:"info" enum:"debug,info,warn,error" env:"STAMPEDE_LOG_LEVEL" help:"Least severity that is logged: debug, info, warn or error." rare:""`
	LogFormat string `default:"text" enum:"text,json" env:"STAMPEDE_LOG_FORMAT" help:"Log format: text for people, json for machines."`
}

// Logger returns a logger that writes to w as configured.
func (s Settings) Logger(w io.Writer, requestID func(context.Context) string) *slog.Logger {
	return Logger(s.LogLevel, s.LogFormat, w, requestID)
}

// Logger returns a logger that writes to w in a format, "text" or "json", from
// a level up: "debug", "info", "warn" or "error". Each line carries the id that
// requestID finds in its context, if requestID is given, and the trace id.
func Logger(level, format string, w io.Writer, requestID func(context.Context) string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo // the command line allows no other value
	}
	opts := &slog.HandlerOptions{Level: l}
	var h slog.Handler = slog.NewTextHandler(w, opts)
	if format == "json" {
		h = slog.NewJSONHandler(w, opts)
	}
	return slog.New(contextHandler{h, requestID})
}

// contextHandler adds the ids in the context to each line.
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

// Registry returns a registry that contains the metrics of the Go runtime and
// of the process.
func Registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}
