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
	Metrics      prometheus.Registerer // may be nil
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

// SiteKey is the public key.
func (p *SiteVerify) SiteKey() string { return p.cfg.SiteKey }

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
	var r reply
	err := p.Do(ctx, outbound.Request{
		URL: p.cfg.URL, Body: []byte(form.Encode()), Type: "application/x-www-form-urlencoded",
		Head: func(h http.Header) { h.Set("Accept", "application/json") },
	}, func(answered outbound.Reply) (err error) {
		r, err = read(answered)
		return err
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

// read reads what the verifier answered.
func read(answered outbound.Reply) (reply, error) {
	if answered.Status >= http.StatusInternalServerError {
		return reply{}, fmt.Errorf("the verifier answered %d", answered.Status)
	}
	var r reply
	if err := json.Unmarshal(answered.Body, &r); err != nil {
		return reply{}, fmt.Errorf("the verifier answered %d with something else than JSON: %w", answered.Status, err)
	}
	for _, code := range r.Codes {
		if slices.Contains(notTheToken, code) {
			return reply{}, fmt.Errorf("the verifier refuses to judge: %s", code)
		}
	}
	return r, nil
}
