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

	"stampede/platform/edge/outbound"
)

const (
	// breakerDelay is how long no request is made after breakerFailures.
	breakerDelay = 5 * time.Second
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

// provider is a service that judges browsers and gives a page a token for its verdict,
// with the API of Cloudflare Turnstile:
// https://developers.cloudflare.com/turnstile/get-started/server-side-validation/. Safe
// for concurrent use.
type provider struct {
	*outbound.Client
	set   Settings
	slots chan struct{}
}

func newProvider(cfg Config, reg prometheus.Registerer) *provider {
	return &provider{set: cfg.Settings, slots: make(chan struct{}, maxQuestions), Client: outbound.New(outbound.Config{
		Peer: "verifier", Timeout: cfg.VerifierTimeout, Whole: true, Attempts: verifyAttempts, BreakerFailures: breakerFailures, BreakerDelay: cfg.BreakerDelay,
		Conns: maxQuestions, MaxBytes: maxReplyBytes, Metrics: reg,
	})}
}

// errBusy is returned when the maximum number of requests is in flight.
var errBusy = errors.New("humancheck: too many requests to the verifier are in flight")

// reply is siteverify's answer: what the provider says about a token.
type reply struct {
	Success  bool     `json:"success"`
	At       string   `json:"challenge_ts"` // when the widget was solved, RFC 3339; may be empty unless success
	Hostname string   `json:"hostname"`
	Codes    []string `json:"error-codes"`
	Action   string   `json:"action"` // that the widget was given
	Data     string   `json:"cdata"`  // the same

	at time.Time // At
}

// used reports whether the token is too old for the provider, or was verified before.
func (r reply) used() bool { return slices.Contains(r.Codes, "timeout-or-duplicate") }

// notTheToken are the codes that concern the shop's settings or the provider itself,
// and not the client's token.
var notTheToken = []string{"missing-input-secret", "invalid-input-secret", "bad-request", "internal-error"}

// verify checks a token; client may be invalid when it is unknown. An error means that the
// provider failed; a bad token is a verdict. It returns within seconds.
func (p *provider) verify(ctx context.Context, token string, client netip.Addr) (r reply, err error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	default:
		return r, errBusy
	}
	form := url.Values{"secret": {p.set.VerifierSecret}, "response": {token}, "idempotency_key": {uuid.NewString()}}
	if client.IsValid() {
		form.Set("remoteip", client.String())
	}
	err = p.Do(ctx, outbound.Request{
		URL: p.set.VerifierURL, Body: []byte(form.Encode()), Type: "application/x-www-form-urlencoded",
		Head: func(h http.Header) { h.Set("Accept", "application/json") },
	}, func(answered outbound.Reply) (err error) {
		r, err = read(answered)
		return err
	})
	if err != nil {
		return r, fmt.Errorf("humancheck: query the verifier: %w", err)
	}
	if r.Success {
		if r.at, err = time.Parse(time.RFC3339, r.At); err != nil {
			return r, fmt.Errorf("humancheck: the verifier's challenge_ts: %w", err)
		}
	}
	return r, nil
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
