package outbound

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"
)

// maxAnswerBytes is far above any answer of an operator's route but exports.
const maxAnswerBytes = 16 << 20

// API calls the operators' routes of a running server, for commands. Safe for
// concurrent use; Close it.
type API struct {
	client        *Client
	server, token string
}

// NewAPI returns an API for the server at a URL without a path. One call takes
// timeout at most.
func NewAPI(server, token string, timeout time.Duration) *API {
	return &API{
		client: New(Config{Peer: "server", Timeout: timeout, Attempts: 1, MaxBytes: maxAnswerBytes}),
		server: server, token: token,
	}
}

// Close closes the API's connections.
func (a *API) Close() { a.client.CloseIdleConnections() }

// Call posts body as JSON, or gets if body is nil, and decodes the answer into out. A
// problem is an error with the problem's code and detail.
func (a *API) Call(ctx context.Context, path string, body, out any) (err error) {
	r := Request{URL: a.server + path, Head: func(h http.Header) { h.Set("Authorization", "Bearer "+a.token) }}
	if body != nil {
		if r.Body, err = json.Marshal(body); err != nil {
			return err
		}
		r.Type = "application/json"
	}
	return a.do(ctx, r, func(body []byte) error { return json.Unmarshal(body, out) })
}

// Document gets a document in a language as it is.
func (a *API) Document(ctx context.Context, path, language string) (doc []byte, err error) {
	r := Request{URL: a.server + path, Head: func(h http.Header) {
		h.Set("Authorization", "Bearer "+a.token)
		h.Set("Accept-Language", language)
	}}
	err = a.do(ctx, r, func(body []byte) error {
		if len(body) == maxAnswerBytes {
			return fmt.Errorf("the answer is longer than %d MiB", maxAnswerBytes>>20)
		}
		doc = body
		return nil
	})
	return doc, err
}

// do makes a call whose success take reads.
func (a *API) do(ctx context.Context, r Request, take func(body []byte) error) error {
	err := a.client.Do(ctx, r, func(r Reply) error {
		if r.Status/100 == 2 { // any success
			return take(r.Body)
		}
		var problem struct{ Code, Detail string }
		if err := json.Unmarshal(r.Body, &problem); err != nil || problem.Code == "" {
			return fmt.Errorf("the server answers with status %d; is it the server's address?", r.Status)
		}
		return fmt.Errorf("the server answers %s: %s", problem.Code, problem.Detail)
	})
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("nothing listens at %s: start the server, or give its address with --url", a.server)
	}
	return err
}
