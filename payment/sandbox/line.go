package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"

	"stampede/payment/provider"
	"stampede/platform/ids"
)

// maxIdleConns is how many connections stay open between calls: as many as
// closings and creations usually run at once.
const maxIdleConns = 32

// errOtherReply: a genuine reply of the bank, but to another question.
var errOtherReply = errors.New("sandbox: the reply belongs to another request")

// line carries calls to the bank: each attempt under a time-out, attempts
// counted by a breaker, failures tried again. Every call may be repeated,
// because the bank does each number once.
type line struct {
	http     *http.Client
	executor failsafe.Executor[answer]
}

// answer is what the bank said, verified by the caller.
type answer struct {
	status int
	body   []byte
}

// ours reports whether a failure is the caller's: it gave up. That says nothing
// about the bank.
func ours(err error) bool { return errors.Is(err, context.Canceled) }

// newLine orders the three from the outside in: retries, breaker, time-out.
func newLine(cfg ClientConfig) *line {
	failed := func(a answer, err error) bool {
		return (err != nil && !ours(err)) || a.status >= http.StatusInternalServerError
	}
	retry := retrypolicy.NewBuilder[answer]().HandleIf(failed).
		AbortOnErrors(circuitbreaker.ErrOpen). // the breaker's delay is far longer than ours
		WithMaxAttempts(cfg.Attempts).WithBackoff(cfg.Backoff, 16*cfg.Backoff).WithJitterFactor(.25).
		ReturnLastFailure().Build()
	breaker := circuitbreaker.NewBuilder[answer]().HandleIf(failed).
		WithFailureThreshold(uint(cfg.BreakerFailures)).
		WithSuccessThreshold(1).WithDelay(cfg.BreakerDelay).Build()
	return &line{
		http: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport:     &http.Transport{MaxIdleConnsPerHost: maxIdleConns, IdleConnTimeout: 30 * time.Second},
		},
		executor: failsafe.With[answer](retry, breaker, timeout.New[answer](cfg.Timeout)),
	}
}

// exchange makes one call and reads its verified reply into out. A refusal by
// the bank is provider.ErrRefused with the bank's words.
func (c *Client) exchange(ctx context.Context, path string, nonce ids.ID, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	a, err := c.line.executor.WithContext(ctx).GetWithExecution(func(exec failsafe.Execution[answer]) (answer, error) { //nolint:contextcheck // exec's comes from ctx
		return c.attempt(exec.Context(), path, body)
	})
	if err != nil {
		return err
	}
	if a.status == http.StatusOK {
		return decodeStrict(a.body, out)
	}
	var no errorReply
	if err := decodeStrict(a.body, &no); err != nil {
		return fmt.Errorf("status %d: %w", a.status, err)
	}
	// Only what names the request and is about its content is final; a signature
	// or a server at fault is repaired some day.
	final := a.status == http.StatusConflict || a.status == http.StatusUnprocessableEntity
	if final && no.Nonce == nonce {
		return fmt.Errorf("%w: %s: %s", provider.ErrRefused, no.Code, no.Message)
	}
	return fmt.Errorf("status %d: %s: %s", a.status, no.Code, no.Message)
}

// attempt makes one request and checks the reply's signature: what is not the
// bank's counts as no answer.
func (c *Client) attempt(ctx context.Context, path string, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.cfg.BankURL+Prefix+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	c.merchant.sign(req.Header, body)
	resp, err := c.line.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxMessageBytes))
	if err != nil {
		return answer{}, fmt.Errorf("read reply: %w", err)
	}
	if err := c.bank.verify(resp.Header, reply); err != nil {
		return answer{}, fmt.Errorf("status %d: %w", resp.StatusCode, err)
	}
	return answer{status: resp.StatusCode, body: reply}, nil
}
