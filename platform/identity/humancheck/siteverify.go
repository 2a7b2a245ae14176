package humancheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/edge/httpx"
	"stampede/platform/edge/outbound"
)

// SiteVerifyConfig configures a provider with the API of Cloudflare Turnstile:
// https://developers.cloudflare.com/turnstile/get-started/server-side-validation/.
// The zero value is no provider.
type SiteVerifyConfig struct {
	URL     string // the siteverify URL, https:// (http:// on this machine only)
	SiteKey string // public
	Secret  string
	// Timeout bounds a request with its retry; 0 is 2 s, because a shopper waits for
	// it at the door.
	Timeout time.Duration
	// BreakerDelay is how long no request is made after breakerFailures consecutive
	// failures; 0 is 5 s.
	BreakerDelay time.Duration
	Metrics      prometheus.Registerer // may be nil
}

func (c SiteVerifyConfig) on() bool { return c.URL != "" || c.SiteKey != "" || c.Secret != "" }

// Validate returns an error that names the wrong setting.
func (c SiteVerifyConfig) Validate() error {
	u, err := url.Parse(c.URL)
	switch {
	case c.URL == "" || c.SiteKey == "" || c.Secret == "":
		return errors.New("--verifier-url, --verifier-site-key and --verifier-secret belong together: give all of them or none")
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return errors.New("--verifier-url must be like https://challenges.cloudflare.com/turnstile/v0/siteverify")
	case u.Scheme == "http" && !httpx.Loopback(u.Hostname()), u.Scheme != "http" && u.Scheme != "https":
		return errors.New("--verifier-url must begin with https:// because the secret is sent there; http:// is allowed on this machine only")
	case c.Timeout < 0 || c.BreakerDelay < 0:
		return errors.New("--verifier-timeout must not be negative")
	}
	return nil
}

const (
	defaultVerifyTimeout = 2 * time.Second
	defaultBreakerDelay  = 5 * time.Second
	// breakerFailures consecutive failures are more than one bad connection.
	breakerFailures = 5
	// verifyAttempts: a connection that the provider has just closed deserves a
	// retry; the idempotency key makes both one request.
	verifyAttempts = 2
	// maxQuestions bounds the requests that a hanging provider ties up: at 50 ms for
	// an answer they are 5,000 a second.
	maxQuestions = 256
	// maxReplyBytes is far more than the documented reply.
	maxReplyBytes = 64 << 10
)

// SiteVerify is a Provider over HTTP. Safe for concurrent use.
type SiteVerify struct {
	*outbound.Client
	cfg   SiteVerifyConfig
	slots chan struct{}
}

// NewSiteVerify returns a provider with valid settings.
func NewSiteVerify(cfg SiteVerifyConfig) *SiteVerify {
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultVerifyTimeout
	}
	if cfg.BreakerDelay == 0 {
		cfg.BreakerDelay = defaultBreakerDelay
	}
	return &SiteVerify{cfg: cfg, slots: make(chan struct{}, maxQuestions), Client: outbound.New(outbound.Config{
		Peer: "verifier", Timeout: cfg.Timeout, Whole: true, Attempts: verifyAttempts, BreakerFailures: breakerFailures, BreakerDelay: cfg.BreakerDelay,
		Conns: maxQuestions, MaxBytes: maxReplyBytes, Metrics: cfg.Metrics,
	})}
}

// SiteKey returns the public key.
func (p *SiteVerify) SiteKey() string { return p.cfg.SiteKey }

// reply is siteverify's answer.
type reply struct {
	Success  bool     `json:"success"`
	At       string   `json:"challenge_ts"` // RFC 3339; may be empty unless success
	Hostname string   `json:"hostname"`
	Codes    []string `json:"error-codes"`
	Action   string   `json:"action"`
	Data     string   `json:"cdata"`
}

// notTheToken are the codes that concern the shop's settings or the provider itself,
// and not the client's token.
var notTheToken = []string{"missing-input-secret", "invalid-input-secret", "bad-request", "internal-error"}

// Verify checks a token with the provider.
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
	var r reply
	err := p.Do(ctx, outbound.Request{
		URL: p.cfg.URL, Body: []byte(form.Encode()), Type: "application/x-www-form-urlencoded",
		Head: func(h http.Header) { h.Set("Accept", "application/json") },
	}, func(answered outbound.Reply) (err error) {
		r, err = read(answered)
		return err
	})
	if err != nil {
		return Verdict{}, fmt.Errorf("humancheck: query the verifier: %w", err)
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

// read parses the verifier's answer.
func read(answered outbound.Reply) (reply, error) {
	if answered.Status >= http.StatusInternalServerError {
		return reply{}, fmt.Errorf("the verifier answered %d", answered.Status)
	}
	var r reply
	if err := json.Unmarshal(answered.Body, &r); err != nil {
		return reply{}, fmt.Errorf("the verifier answered %d without valid JSON: %w", answered.Status, err)
	}
	for _, code := range r.Codes {
		if slices.Contains(notTheToken, code) {
			return reply{}, fmt.Errorf("the verifier rejected the request: %s", code)
		}
	}
	return r, nil
}
