package payment

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
)

// answer is the answer to a request: the status and the members of its JSON.
type answer struct {
	status int
	header http.Header
	body   map[string]any
}

func (a answer) text(member string) string { v, _ := a.body[member].(string); return v }

// want requires a status and, unless it is empty, a problem's code; what names the
// answer.
func (a answer) want(t testing.TB, what string, status int, code string) {
	t.Helper()
	if a.status != status || code != "" && a.text("code") != code {
		t.Fatalf("%s: %d %v, want %d %s", what, a.status, a.body, status, code)
	}
}

// token is one that the server takes.
func (s *bundle) token(of auth.Principal) string {
	token, err := s.tokens.Mint(of, time.Minute)
	if err != nil {
		s.t.Error(err) // not Fatal: may run outside the test's goroutine
	}
	return token
}

// post sends JSON as a user; user 0 sends no token.
func (s *bundle) post(user int64, path, body string) answer {
	s.t.Helper()
	a, err := s.tryPost(user, s.url+path, body)
	require.NoError(s.t, err)
	return a
}

// get is post without a body.
func (s *bundle) get(user int64, path string) answer {
	s.t.Helper()
	a, err := s.try(http.MethodGet, user, s.url+path, "")
	require.NoError(s.t, err)
	return a
}

func (s *bundle) tryPost(user int64, url, body string, headers ...string) (answer, error) {
	return s.try(http.MethodPost, user, url, body, headers...)
}

func (s *bundle) try(method string, user int64, url, body string, headers ...string) (answer, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if user != 0 {
		req.Header.Set("Authorization", "Bearer "+s.token(auth.Principal{UserID: user, Role: auth.Shopper}))
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: resp.StatusCode, header: resp.Header}
	if err := json.Unmarshal(raw, &a.body); err != nil {
		return a, fmt.Errorf("status %d, not JSON: %q", resp.StatusCode, raw)
	}
	return a, nil
}

// askToPay is POST orders/{no}/payments, cancelOrder POST orders/{no}/cancel.
func (s *bundle) askToPay(no ids.ID, user int64) answer {
	s.t.Helper()
	return s.post(user, "/api/v1/orders/"+no.String()+"/payments", "")
}

func (s *bundle) cancelOrder(no ids.ID, user int64) answer {
	s.t.Helper()
	return s.post(user, "/api/v1/orders/"+no.String()+"/cancel", "")
}

// startPayment requests a payment and requires that there is one.
func (s *bundle) startPayment(no ids.ID, user int64) (paymentNo ids.ID, payURL string) {
	s.t.Helper()
	a := s.askToPay(no, user)
	if a.status != http.StatusOK || a.text("pay_url") == "" {
		s.t.Fatalf("start: %d %v", a.status, a.body)
	}
	paymentNo, err := ids.Parse(a.text("payment_no"))
	require.NoError(s.t, err)
	return paymentNo, a.text("pay_url")
}
