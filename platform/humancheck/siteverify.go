package humancheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/google/uuid"

	"stampede/platform/httpx"
)

// SiteVerifyConfig is a provider that speaks as Cloudflare Turnstile does:
// https://developers.cloudflare.com/turnstile/get-started/server-side-validation/.
// The zero value is none.
type SiteVerifyConfig struct {
	URL     string // of its siteverify, https:// (http:// on this machine only)
	SiteKey string // public
	Secret  string
	// Timeout bounds a question with its second attempt; 0 is 2 s: a shopper waits
	// for it at the door.
	Timeout time.Duration
	// BreakerDelay is how long the provider is left alone after breakerFailures
	// failures in a row; 0 is 5 s.
	BreakerDelay time.Duration
}

func (c SiteVerifyConfig) on() bool { return c.URL != "" || c.SiteKey != "" || c.Secret != "" }

// Validate returns one sentence about what is wrong with the settings.
func (c SiteVerifyConfig) Validate() error {
	u, err := url.Parse(c.URL)
	switch {
	case c.URL == "" || c.SiteKey == "" || c.Secret == "":
		return errors.New("--verifier-url, --verifier-site-key and --verifier-secret belong together: give all of them or none")
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return errors.New("--verifier-url must be like https://challenges.cloudflare.com/turnstile/v0/siteverify")
	case u.Scheme == "http" && !httpx.Loopback(u.Hostname()), u.Scheme != "http" && u.Scheme != "https":
		return errors.New("--verifier-url must begin with https://; http:// is for this machine only: the secret travels there")
	case c.Timeout < 0 || c.BreakerDelay < 0:
		return errors.New("--verifier-timeout must not be negative")
	}
	return nil
}

const (
	defaultVerifyTimeout = 2 * time.Second
	defaultBreakerDelay  = 5 * time.Second
	// breakerFailures in a row are no accident of one connection any more.
	breakerFailures = 5
	// verifyAttempts: a connection that the provider has just closed is worth a second
	// try; the idempotency key makes both one question.
	verifyAttempts = 2
	// maxQuestions under way bound what a provider that hangs ties up: at 50 ms for
	// an answer they are 5,000 a second.
	maxQuestions = 256
	// maxReplyBytes is far more than the documented reply.
	maxReplyBytes = 64 << 10
)

// SiteVerify is a Provider over HTTP. Safe for concurrent use.
type SiteVerify struct {
	cfg      SiteVerifyConfig
	http     *http.Client
	breaker  circuitbreaker.CircuitBreaker[reply]
	executor failsafe.Executor[reply]
	slots    chan struct{}
}

// NewSiteVerify returns a provider with valid settings.
func NewSiteVerify(cfg SiteVerifyConfig) *SiteVerify {
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultVerifyTimeout
	}
	if cfg.BreakerDelay == 0 {
		cfg.BreakerDelay = defaultBreakerDelay
	}
	// A client that hangs up says nothing about the provider.
	failed := func(_ reply, err error) bool { return err != nil && !errors.Is(err, context.Canceled) }
	p := &SiteVerify{
		cfg: cfg, slots: make(chan struct{}, maxQuestions),
		http: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: maxQuestions, IdleConnTimeout: 30 * time.Second, ForceAttemptHTTP2: true,
			},
		},
		breaker: circuitbreaker.NewBuilder[reply]().HandleIf(failed).WithFailureThreshold(breakerFailures).
			WithSuccessThreshold(1).WithDelay(cfg.BreakerDelay).Build(),
	}
	retry := retrypolicy.NewBuilder[reply]().HandleIf(failed).WithMaxAttempts(verifyAttempts).ReturnLastFailure().Build()
	// From the outside in: the breaker counts a question once, and as failed when its
	// time has run out.
	p.executor = failsafe.With[reply](p.breaker, timeout.New[reply](cfg.Timeout), retry)
	return p
}

// SiteKey is the public key.
func (p *SiteVerify) SiteKey() string { return p.cfg.SiteKey }

// Available is false while the provider is left alone. When the delay is over, the
// next question is the one that finds out.
func (p *SiteVerify) Available() bool { return !p.breaker.IsOpen() || p.breaker.RemainingDelay() == 0 }

// reply is what siteverify answers.
type reply struct {
	Success  bool     `json:"success"`
	At       string   `json:"challenge_ts"` // RFC 3339; may be empty unless success
	Hostname string   `json:"hostname"`
	Codes    []string `json:"error-codes"`
	Action   string   `json:"action"`
	Data     string   `json:"cdata"`
}

// notTheToken are the codes that speak of the shop's settings or of the provider
// itself; whoever sent the token can do nothing about them.
var notTheToken = []string{"missing-input-secret", "invalid-input-secret", "bad-request", "internal-error"}

// Verify asks the provider about a token.
func (p *SiteVerify) Verify(ctx context.Context, token string, client netip.Addr) (Verdict, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	default:
		return Verdict{}, ErrBusy
	}
	form := url.Values{"secret": {p.cfg.Secret}, "response": {token}, "idempotency_key": {uuid.NewString()}}
	if client.IsValid() {
		form.Set("remoteip", client.String())
	}
	body := form.Encode()
	r, err := p.executor.WithContext(ctx).GetWithExecution(func(exec failsafe.Execution[reply]) (reply, error) { //nolint:contextcheck // exec's comes from ctx
		return p.ask(exec.Context(), body)
	})
	if err != nil {
		return Verdict{}, fmt.Errorf("humancheck: ask the verifier: %w", err)
	}
	var at time.Time
	if r.Success {
		if at, err = time.Parse(time.RFC3339, r.At); err != nil {
			return Verdict{}, fmt.Errorf("humancheck: the verifier's challenge_ts: %w", err)
		}
	}
	return Verdict{
		Success: r.Success, Used: slices.Contains(r.Codes, "timeout-or-duplicate"),
		Hostname: r.Hostname, Action: r.Action, Data: r.Data, At: at,
	}, nil
}

// ask makes one request.
func (p *SiteVerify) ask(ctx context.Context, form string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.cfg.URL, strings.NewReader(form))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	resp, err := p.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= http.StatusInternalServerError {
		return reply{}, fmt.Errorf("the verifier answered %d", resp.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxReplyBytes))
	if err != nil {
		return reply{}, fmt.Errorf("read the verifier's reply: %w", err)
	}
	var r reply
	if err := json.Unmarshal(raw, &r); err != nil {
		return reply{}, fmt.Errorf("the verifier answered %d with something else than JSON: %w", resp.StatusCode, err)
	}
	for _, code := range r.Codes {
		if slices.Contains(notTheToken, code) {
			return reply{}, fmt.Errorf("the verifier refuses to judge: %s", code)
		}
	}
	return r, nil
}
