package sms

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"

	"stampede/platform/signature"
)

// Scheme names the headers that sign a message to the gateway.
var Scheme = signature.Scheme{Timestamp: "Stampede-Timestamp", Signature: "Stampede-Signature"}

// MinSecretBytes is the output of SHA-256, below which guessing is cheaper.
const MinSecretBytes = 32

// GatewayConfig is how the gateway is reached.
type GatewayConfig struct {
	URL    string // where messages are posted
	Secret []byte // signs them; at least MinSecretBytes
	// Timeout bounds one attempt. Defaults to 3 s: a shopper waits for it.
	Timeout time.Duration
	// Attempts is how often a message is sent at most when the gateway cannot be
	// reached or fails. Defaults to 2: the shopper's patience ends before a third.
	Attempts int
	// Backoff is the wait before the second. Defaults to 200 ms.
	Backoff time.Duration
	// BreakerFailures in a row make messages fail at once for BreakerDelay, so that
	// a dead gateway does not hold up every login. Default to 5 and 5 s.
	BreakerFailures int
	BreakerDelay    time.Duration
}

// DefaultGatewayConfig returns the defaults; URL and Secret have to be set by
// the caller.
func DefaultGatewayConfig() GatewayConfig {
	return GatewayConfig{Timeout: 3 * time.Second, Attempts: 2, Backoff: 200 * time.Millisecond, BreakerFailures: 5, BreakerDelay: 5 * time.Second}
}

// Validate returns every fault of the configuration in one error.
func (c GatewayConfig) Validate() error {
	var errs []error
	if c.URL == "" {
		errs = append(errs, errors.New("sms: the gateway needs an address"))
	}
	if len(c.Secret) < MinSecretBytes {
		errs = append(errs, fmt.Errorf("sms: the gateway's secret has %d bytes, %d are the least", len(c.Secret), MinSecretBytes))
	}
	if c.Timeout <= 0 || c.Backoff <= 0 || c.BreakerDelay <= 0 || c.Attempts < 1 || c.BreakerFailures < 1 {
		errs = append(errs, errors.New("sms: time-out, back-off, attempts and breaker are above 0"))
	}
	return errors.Join(errs...)
}

// Gateway sends through an HTTP gateway. Safe for concurrent use.
type Gateway struct {
	cfg      GatewayConfig
	now      func() time.Time
	log      *slog.Logger
	http     *http.Client
	executor failsafe.Executor[int] // yields the status of the answer
}

// connections that stay open between messages: more are rarely under way.
const idleConns = 8

// NewGateway returns a sender. It makes no call. now dates the signatures.
func NewGateway(cfg GatewayConfig, now func() time.Time, log *slog.Logger) (*Gateway, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	failed := func(status int, err error) bool {
		return err != nil && !errors.Is(err, context.Canceled) || err == nil && passing(status)
	}
	retry := retrypolicy.NewBuilder[int]().HandleIf(failed).
		AbortOnErrors(circuitbreaker.ErrOpen). // the breaker's delay is far longer than ours
		WithMaxAttempts(cfg.Attempts).WithDelay(cfg.Backoff).WithJitterFactor(.25).ReturnLastFailure().Build()
	breaker := circuitbreaker.NewBuilder[int]().HandleIf(failed).
		WithFailureThreshold(uint(cfg.BreakerFailures)).WithSuccessThreshold(1).WithDelay(cfg.BreakerDelay).Build() //nolint:gosec // above 0
	return &Gateway{
		cfg: cfg, now: now, log: log,
		http: &http.Client{
			// What is signed is meant for the address in the settings and no other.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: idleConns, IdleConnTimeout: 30 * time.Second},
		},
		executor: failsafe.With[int](retry, breaker, timeout.New[int](cfg.Timeout)),
	}, nil
}

// HangUp drops the idle connections to the gateway.
func (g *Gateway) HangUp() { g.http.CloseIdleConnections() }

// passing reports whether an answer is about the moment rather than the message.
func passing(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status < http.StatusOK || status >= http.StatusMultipleChoices && status < http.StatusBadRequest || status >= http.StatusInternalServerError
}

// Body is what a gateway is sent.
type Body struct {
	ID    string `json:"id"`
	Phone string `json:"phone"`
	Text  string `json:"text"`
}

// Send implements Sender.
func (g *Gateway) Send(ctx context.Context, m Message) error {
	body, err := json.Marshal(Body(m))
	if err != nil {
		return fmt.Errorf("sms: encode: %w", err)
	}
	status, err := g.executor.WithContext(ctx).GetWithExecution(func(exec failsafe.Execution[int]) (int, error) { //nolint:contextcheck // exec's comes from ctx
		return g.attempt(exec.Context(), body)
	})
	switch {
	case err != nil || passing(status):
		if err == nil {
			err = fmt.Errorf("sms: the gateway answered %d", status)
		}
		g.log.WarnContext(ctx, "SMS not sent", "message", m.ID, "error", err)
		return ErrUnavailable.After(time.Minute).Because(err)
	case status >= http.StatusBadRequest:
		g.log.WarnContext(ctx, "SMS refused by the gateway", "message", m.ID, "status", status)
		return ErrRefused
	}
	return nil
}

// answerBytes is what is read of an answer, to use the connection again.
const answerBytes = 4 << 10

// attempt posts once, signed at this moment, and returns the answer's status.
func (g *Gateway) attempt(ctx context.Context, body []byte) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "stampede")
	Scheme.Sign(req.Header, g.cfg.Secret, g.now(), body)
	resp, err := g.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, answerBytes)) // only the status counts
	return resp.StatusCode, nil
}
