package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"stampede/platform/identity/humancheck"
)

// client speaks the public API. Safe for concurrent use.
type client struct {
	base  string
	links []*url.URL // where links lead, in turn
	next  atomic.Uint32
	http  *http.Client
}

// requestTimeout bounds one request: longer than the server's publish deadline,
// after which it answers "unknown".
const requestTimeout = 15 * time.Second

// maxAnswerBytes bounds how much of an answer is read.
const maxAnswerBytes = 1 << 20

func newClient(base string, connections int, others ...string) *client {
	links := []*url.URL{}
	for _, address := range append([]string{base}, others...) {
		u, err := url.Parse(address)
		if err != nil {
			u = &url.URL{} // requests fail, and say why
		}
		links = append(links, u)
	}
	return &client{base: base, links: links, http: &http.Client{
		Timeout: requestTimeout,
		Transport: &http.Transport{
			MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections, MaxIdleConns: connections,
			IdleConnTimeout: time.Minute, DisableCompression: true,
		},
	}}
}

// answer is a server's answer.
type answer struct {
	status     int
	body       []byte
	retryAfter time.Duration
}

func (a answer) ok() bool { return a.status < http.StatusBadRequest }

// code is the code of a refusal's problem document; empty for a success.
func (a answer) code() []byte {
	if a.ok() {
		return nil
	}
	if code, ok := textMember(a.body, `"code"`); ok && len(code) > 0 {
		return code
	}
	return strconv.AppendInt([]byte("http-"), int64(a.status), 10)
}

// do sends one request; proof is the solution of a human check, if it is not empty. An
// error means that there was no answer.
func (c *client) do(ctx context.Context, method, path, token, proof string, body any) (answer, error) {
	var reader io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return answer{}, fmt.Errorf("loadgen: encode: %w", err)
		}
		reader = bytes.NewReader(raw)
	}
	target := path
	if path[0] == '/' {
		target = c.base + path
	}
	req, err := http.NewRequestWithContext(ctx, method, target, reader)
	if err != nil {
		return answer{}, fmt.Errorf("loadgen: request: %w", err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if proof != "" {
		req.Header.Set(humancheck.Header, proof)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return answer{}, err
	}
	return answer{status: resp.StatusCode, body: raw}, nil
}

// call is like do but decodes the answer; a refusal becomes an error with its code.
func (c *client) call(ctx context.Context, method, path, token string, body, into any) error {
	a, err := c.do(ctx, method, path, token, "", body)
	if err != nil {
		return err
	}
	if !a.ok() {
		return &refusal{method: method, path: path, answer: a}
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("loadgen: unreadable answer to %s %s: %w", method, path, err)
	}
	return nil
}

// refusal is an answer that refuses the request.
type refusal struct {
	method, path string
	answer       answer
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%s %s was refused: %d %s", r.method, r.path, r.answer.status, r.answer.code())
}

func codeOf(err error) string {
	if r, ok := errors.AsType[*refusal](err); ok {
		return string(r.answer.code())
	}
	return answerNone
}

// itemView is what the tool reads of an item.
type itemView struct {
	ActivityID   string     `json:"activity_id"`
	Title        string     `json:"title"`
	Status       string     `json:"status"`
	OpensAt      time.Time  `json:"opens_at"`
	ClosesAt     time.Time  `json:"closes_at"`
	HumanCheck   string     `json:"human_check"`
	ReserveFrom  *time.Time `json:"reservation_opens_at"` // nil if no reservation is required
	ReserveUntil *time.Time `json:"reservation_closes_at"`
	ServerTime   time.Time  `json:"server_time"`
}
