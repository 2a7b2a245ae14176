// Package export sends the spans of package tracing to an OpenTelemetry collector, over
// OTLP from a bounded queue by one goroutine. A slow or absent collector costs spans,
// never time. It is separate so that what only makes spans does not link the exporter,
// which brings gRPC with it.
package export

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/time/rate"

	"stampede/platform/base/tracing"
)

const (
	// queueSpans bounds the spans that wait for the collector, some 2 MB. At
	// the default share of 1 % that is the traces of forty thousand rushes;
	// beyond it new spans are dropped.
	queueSpans = 4096
	// sendEvery is the longest a span waits before it is sent with the others
	// in the queue.
	sendEvery = time.Second
	// sendTimeout gives up on a collector that hangs; its spans are dropped.
	sendTimeout = 5 * time.Second
	// warnEvery keeps an absent collector from filling the log.
	warnEvery = time.Minute
)

// defaultPath is the standard OTLP path for traces, for an endpoint without a path.
const defaultPath = "/v1/traces"

// Settings configure where traces are sent.
type Settings struct {
	Endpoint string  `name:"trace-endpoint" default:"" env:"STAMPEDE_TRACE_ENDPOINT" help:"OpenTelemetry collector (OTLP over HTTP) that traces are sent to, e.g. http://127.0.0.1:4318. Empty: no traces." rare:""`
	Share    float64 `name:"trace-sample" default:"0.01" env:"STAMPEDE_TRACE_SAMPLE" help:"Share of the requests and rushes that are traced." min:"0" max:"1" rare:""`
}

// Check returns an error for an invalid endpoint.
func (s Settings) Check() error {
	if s.Endpoint == "" {
		return nil
	}
	if _, err := ParseEndpoint(s.Endpoint); err != nil {
		return fmt.Errorf("--trace-endpoint %w", err)
	}
	return nil
}

// Config is the settings and the identity of the traced service.
type Config struct {
	Settings
	Version string
	Log     *slog.Logger
}

// ParseEndpoint checks an endpoint and completes its path.
func ParseEndpoint(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("must be the URL of an OTLP/HTTP collector such as http://127.0.0.1:4318, not %q", endpoint)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = defaultPath
	}
	return u.String(), nil
}

// Open starts sending, or returns nil when no endpoint is configured. It does
// not connect: an unreachable collector is no reason not to sell. Headers that
// the collector requires, such as a key, come from OTEL_EXPORTER_OTLP_HEADERS.
func Open(ctx context.Context, cfg Config) (*tracing.Tracer, error) {
	if cfg.Endpoint == "" {
		return nil, nil // nil is the tracer that is off
	}
	endpoint, err := ParseEndpoint(cfg.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("export: endpoint %w", err)
	}
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(endpoint),
		otlptracehttp.WithTimeout(sendTimeout),
		// Spans that the collector refuses are dropped: a retry would hold up the rest.
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}),
	)
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	// The library reports send errors to one process-wide handler, by default
	// to standard error without a limit.
	otel.SetErrorHandler(&errorHandler{log: cfg.Log, seldom: rate.Sometimes{Interval: warnEvery}})
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter,
			sdktrace.WithMaxQueueSize(queueSpans), sdktrace.WithBatchTimeout(sendEvery), sdktrace.WithExportTimeout(sendTimeout)),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "stampede"), attribute.String("service.version", cfg.Version))),
		// Root and Child have already decided.
		sdktrace.WithSampler(sdktrace.AlwaysSample()),
	)
	return tracing.New(provider, cfg.Share), nil
}

// errorHandler logs the library's errors, at most once a minute.
type errorHandler struct {
	log    *slog.Logger
	seldom rate.Sometimes
}

// Handle implements otel.ErrorHandler.
func (c *errorHandler) Handle(err error) {
	c.seldom.Do(func() { c.log.Warn("traces lost: the collector does not accept them", "error", err) })
}
