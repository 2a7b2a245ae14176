package office

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
	"strings"

	"github.com/go-chi/chi/v5"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
)

// Call is one request of an operator. It makes requests to the API in that operator's
// name.
type Call struct {
	Words
	Who auth.Principal

	r       *http.Request
	w       http.ResponseWriter
	session *session
	// changed says that the answer must set the session's cookie.
	changed bool
	// refreshed says that the access token is new, so that another 401 is final.
	refreshed bool
	// failed is the form that the API has just refused, nil if there is none.
	failed *failure
}

// Value returns a part of the page's path.
func (c *Call) Value(name string) string { return c.r.PathValue(name) }

// Query returns the page's query.
func (c *Call) Query() url.Values { return c.r.URL.Query() }

// Get reads a document of the API. Its error is a *Problem.
func (c *Call) Get(path string, query url.Values) (map[string]any, error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.send(http.MethodGet, path, "", nil)
}

// send makes a request with the session's token.
func (c *Call) send(method, path, key string, body map[string]any) (doc map[string]any, err error) {
	err = c.admitted(func() error {
		doc = nil
		return c.exchange(method, path, c.session.Access, body, &doc, key)
	})
	return doc, err
}

// admitted runs a request. A token that was revoked, as after a change of role, is
// refreshed once: the API has done nothing when it answers 401.
func (c *Call) admitted(request func() error) error {
	err := request()
	if p, refused := errors.AsType[*Problem](err); refused && p.Status == http.StatusUnauthorized && p.Code == auth.ErrBadToken.Code && !c.refreshed {
		c.refreshed = true
		if err = c.refresh(); err == nil {
			err = request()
		}
	}
	return err
}

// exchange sends one request to the router, with a body that is a document, a file's content
// or nil, and decodes a successful answer.
func (c *Call) exchange(method, path, token string, body, out any, key string, headers ...string) error {
	var raw io.Reader = http.NoBody
	switch body := body.(type) {
	case []byte:
		raw = bytes.NewReader(body)
		headers = append(headers, "Content-Type", "application/octet-stream")
	case map[string]any:
		if body == nil {
			break
		}
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("office: encode a request: %w", err)
		}
		raw = bytes.NewReader(text)
		headers = append(headers, "Content-Type", "application/json")
	}
	if key != "" {
		headers = append(headers, "Idempotency-Key", key)
	}
	req, err := c.request(method, path, token, raw, headers...)
	if err != nil {
		return err
	}
	got := &recorder{header: http.Header{}}
	c.office.deps.API.ServeHTTP(got, req)
	for _, cookie := range got.header.Values("Set-Cookie") { // the device's, see httpx.DeviceCookie
		c.w.Header().Add("Set-Cookie", cookie)
	}
	if got.status >= http.StatusBadRequest {
		return c.problemOf(got)
	}
	if out == nil || got.body.Len() == 0 {
		return nil
	}
	decoder := json.NewDecoder(&got.body)
	decoder.UseNumber() // a large amount must not become a float
	if err := decoder.Decode(out); err != nil {
		return fmt.Errorf("office: decode the answer of %s %s: %w", method, path, err)
	}
	return nil
}

// request returns a request to the API as the operator's browser would send it: the
// API must see the browser's address and device, not the office's.
func (c *Call) request(method, path, token string, body io.Reader, headers ...string) (*http.Request, error) {
	// chi takes a request with its route in the context for one of a sub-router.
	ctx := context.WithValue(c.r.Context(), chi.RouteCtxKey, nil)
	req, err := http.NewRequestWithContext(ctx, method, path, body) //nolint:gosec // it is served in process, by our own router
	if err != nil {
		return nil, fmt.Errorf("office: %s %s: %w", method, path, err)
	}
	req.RemoteAddr, req.Host, req.TLS, req.RequestURI = c.r.RemoteAddr, c.r.Host, c.r.TLS, path
	for _, name := range []string{httpx.XForwardedFor, httpx.Forwarded, "User-Agent"} {
		if values := c.r.Header.Values(name); len(values) > 0 {
			req.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if device, err := c.r.Cookie(httpx.DeviceCookie); err == nil {
		req.AddCookie(device)
	}
	req.Header.Set("X-Request-Id", httpx.RequestID(c.r.Context()))
	req.Header.Set("Accept-Language", languageTags[c.Lang])
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return req, nil
}

// recorder takes an answer of the API. If pass is set, a successful one goes there
// while it is written, without its cookies.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
	pass   http.ResponseWriter
}

func (a *recorder) Header() http.Header { return a.header }

// WriteHeader notes the status.
func (a *recorder) WriteHeader(status int) {
	if a.status != 0 || status < http.StatusOK {
		return
	}
	if a.status = status; a.passes() {
		for _, name := range []string{"Content-Type", "Content-Disposition", "Content-Security-Policy", "X-Accel-Buffering"} {
			if value := a.header.Get(name); value != "" {
				a.pass.Header().Set(name, value)
			}
		}
		a.pass.WriteHeader(status)
	}
}

func (a *recorder) passes() bool { return a.pass != nil && a.status < http.StatusMultipleChoices }

func (a *recorder) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.passes() {
		return a.pass.Write(p)
	}
	return a.body.Write(p) // it cannot fail
}

// FlushError supports http.ResponseController.
func (a *recorder) FlushError() error {
	if a.passes() {
		return http.NewResponseController(a.pass).Flush()
	}
	return nil
}

// Problem is a refusal of the API, as it worded it.
type Problem struct { //nolint:errname // RFC 9457's term
	Status    int    `json:"status"`
	Code      string `json:"code"`
	Title     string `json:"title"`
	Detail    string `json:"detail"`
	Next      string `json:"next"`
	RequestID string `json:"request_id"`
	Errors    []Flaw `json:"errors"`
	// Challenge is the human check that a sign-in needs.
	Challenge map[string]any `json:"challenge"`
	// RetryAfter is in seconds; 0 if the API does not say.
	RetryAfter int `json:"-"`
}

// Flaw is one invalid member of a request.
type Flaw struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// of is what is wrong with a field, "" if nothing is.
func (p *Problem) of(name string) string {
	if p == nil {
		return ""
	}
	for _, f := range p.Errors {
		if f.Location == name || f.Location == "body."+name || strings.HasPrefix(f.Location, "body."+name+".") || strings.HasPrefix(f.Location, "body."+name+"[") {
			return f.Message
		}
	}
	return ""
}

func (c *Call) problemOf(got *recorder) error {
	p := &Problem{Status: got.status}
	if err := json.Unmarshal(got.body.Bytes(), p); err != nil {
		return fmt.Errorf("office: the API answered %d with %.100q: %w", got.status, got.body.String(), err)
	}
	p.RetryAfter, _ = strconv.Atoi(got.header.Get("Retry-After"))
	return p
}

// fill puts a page's values into the placeholders of a path.
func fill(path string, value func(name string) string) string {
	for {
		before, rest, found := strings.Cut(path, "{")
		if !found {
			return path
		}
		name, after, _ := strings.Cut(rest, "}")
		path = before + url.PathEscape(value(name)) + after
	}
}
