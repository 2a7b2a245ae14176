package humancheck

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	"stampede/platform/edge/outbound"
)

// siteverify is the API of Cloudflare Turnstile, which others have too:
// https://developers.cloudflare.com/turnstile/get-started/server-side-validation/.
type siteverify struct{ set Settings }

// reply is siteverify's answer: what the provider says about a token.
type reply struct {
	Success  bool     `json:"success"`
	At       string   `json:"challenge_ts"` // when the widget was solved, RFC 3339; may be empty unless success
	Hostname string   `json:"hostname"`
	Codes    []string `json:"error-codes"`
	Action   string   `json:"action"` // that the widget was given
	Data     string   `json:"cdata"`  // the same
}

// notTheToken are the codes that concern the shop's settings or the provider itself,
// and not the client's token.
var notTheToken = []string{"missing-input-secret", "invalid-input-secret", "bad-request", "internal-error"}

func (p siteverify) ask(token string, client netip.Addr) (question, error) {
	if len(token) > maxSiteverifyBytes {
		return question{}, errMalformed
	}
	// The idempotency key makes both attempts one request.
	form := url.Values{"secret": {p.set.VerifierSecret}, "response": {token}, "idempotency_key": {uuid.NewString()}}
	if client.IsValid() {
		form.Set("remoteip", client.String())
	}
	return question{Request: outbound.Request{
		URL: p.set.VerifierURL, Body: []byte(form.Encode()), Type: formType,
		Head: func(h http.Header) { h.Set("Accept", "application/json") },
	}}, nil
}

func (p siteverify) read(answered outbound.Reply) (verdict, error) {
	var r reply
	if err := decode(answered, &r); err != nil {
		return verdict{}, err
	}
	for _, code := range r.Codes {
		if slices.Contains(notTheToken, code) {
			return verdict{}, rejected(code)
		}
	}
	v := verdict{page: &page{host: r.Hostname, action: r.Action}, ticket: r.Data}
	switch {
	case slices.Contains(r.Codes, "timeout-or-duplicate"): // too old for the provider, or verified before
		v.no = errUsed
	case !r.Success:
		v.no = errWrong
	default:
		var err error
		if v.at, err = time.Parse(time.RFC3339, r.At); err != nil {
			return verdict{}, fmt.Errorf("the verifier's challenge_ts: %w", err)
		}
	}
	return v, nil
}

// decode reads an answer in JSON.
func decode(answered outbound.Reply, into any) error {
	if answered.Status >= http.StatusInternalServerError {
		return fmt.Errorf("the verifier answered %d", answered.Status)
	}
	if err := json.Unmarshal(answered.Body, into); err != nil {
		return fmt.Errorf("the verifier answered %d without valid JSON: %w", answered.Status, err)
	}
	return nil
}

// rejected is the error of an answer that is not about the token.
func rejected(code string) error {
	return fmt.Errorf("the verifier rejected the request: %.60q", code)
}
