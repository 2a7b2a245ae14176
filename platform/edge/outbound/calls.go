package outbound

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/plaintext"
)

// Calls bounds, repeats, breaks and measures the calls to one peer, of any protocol. Safe for
// concurrent use.
type Calls struct {
	peer     string
	executor failsafe.Executor[any]
	breaker  circuitbreaker.CircuitBreaker[any] // nil without one
	seconds  prometheus.ObserverVec
}

// NewCalls returns the calls to a peer; of the settings, those about HTTP are not used.
func NewCalls(cfg Config) *Calls {
	// A caller that gave up does not indicate a failure of the peer.
	failed := func(_ any, err error) bool { return err != nil && !errors.Is(err, context.Canceled) }
	c := &Calls{peer: cfg.Peer, seconds: seconds(cfg.Metrics)}
	again := retrypolicy.NewBuilder[any]().HandleIf(failed).
		AbortOnErrors(circuitbreaker.ErrOpen). // the breaker's delay is far longer than ours
		WithMaxAttempts(cfg.Attempts).ReturnLastFailure()
	if cfg.Backoff > 0 {
		again = again.WithBackoff(cfg.Backoff, 16*cfg.Backoff).WithJitterFactor(.25)
	}
	retry, limit := failsafe.Policy[any](again.Build()), failsafe.Policy[any](timeout.New[any](cfg.Timeout))
	// From the outermost to the innermost.
	policies := []failsafe.Policy[any]{retry, limit}
	if cfg.Whole {
		policies = []failsafe.Policy[any]{limit, retry}
	}
	if cfg.BreakerFailures > 0 {
		c.breaker = circuitbreaker.NewBuilder[any]().HandleIf(failed).WithFailureThreshold(uint(cfg.BreakerFailures)). //nolint:gosec // above 0
																WithSuccessThreshold(1).WithDelay(cfg.BreakerDelay).Build()
		policies = []failsafe.Policy[any]{retry, c.breaker, limit}
		if cfg.Whole {
			policies = []failsafe.Policy[any]{c.breaker, limit, retry}
		}
	}
	c.executor = failsafe.With(policies...)
	return c
}

// Run makes a call, whose attempts end with their context.
func (c *Calls) Run(ctx context.Context, attempt func(context.Context) error) error {
	return c.executor.WithContext(ctx).RunWithExecution(func(exec failsafe.Execution[any]) error { //nolint:contextcheck // exec's comes from ctx
		began, result := time.Now(), "ok"
		probe := c.breaker != nil && c.breaker.IsHalfOpen()
		err := attempt(exec.Context())
		if err != nil {
			result, err = "failed", legible(err)
		}
		if probe && errors.Is(err, context.Canceled) {
			c.breaker.Open() // it says nothing, which the breaker would take for a success
		}
		c.seconds.WithLabelValues(c.peer, result).Observe(time.Since(began).Seconds())
		return err
	})
}

// Available is false while the breaker is open. When its delay is over, the next
// call probes the peer.
func (c *Calls) Available() bool {
	return c.breaker == nil || !c.breaker.IsOpen() || c.breaker.RemainingDelay() == 0
}

// seconds is the histogram shared by all clients of a registry.
func seconds(metrics prometheus.Registerer) prometheus.ObserverVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "stampede_outbound_seconds", Help: "Duration of calls to another service, per attempt, by service and whether its reply was usable.",
		Buckets: []float64{.01, .03, .1, .3, 1, 3, 10},
	}, []string{"peer", "result"})
	if metrics == nil {
		return h
	}
	if have, ok := errors.AsType[prometheus.AlreadyRegisteredError](metrics.Register(h)); ok {
		if same, ok := have.ExistingCollector.(*prometheus.HistogramVec); ok {
			return same
		}
	}
	return h
}

// errorBytes bounds the text of an error.
const errorBytes = 500

// legibleError is an error whose text had what a peer chose, such as a line of its reply or
// the names in its certificate: without control characters, which Postgres and terminals
// refuse, and without its end.
type legibleError struct {
	error

	text string
}

func (e legibleError) Error() string { return e.text }
func (e legibleError) Unwrap() error { return e.error }

func legible(err error) error {
	said := err.Error()
	text := strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if plaintext.Unruly(r) {
			return '?'
		}
		return r
	}, said[:min(len(said), errorBytes)]), "?")
	if text == said {
		return err
	}
	return legibleError{err, text}
}
