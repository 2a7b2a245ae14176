// Package httpxtest sends test requests to a router or a server.
package httpxtest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
)

// Answer is the answer of a router or a server. Doc is its body if that is a JSON object.
type Answer struct {
	Status int
	Header http.Header
	Raw    []byte
	Doc    map[string]any
}

// Text reads a member of the body.
func (a Answer) Text(member string) string { s, _ := a.Doc[member].(string); return s }

// Want requires a status, unless it is empty a problem's code, and texts of the body, and
// returns the answer, which what names.
func (a Answer) Want(t testing.TB, what string, status int, code string, texts ...string) Answer {
	t.Helper()
	lacks := func(text string) bool { return !strings.Contains(string(a.Raw), text) }
	if a.Status != status || code != "" && a.Text("code") != code || slices.ContainsFunc(texts, lacks) {
		t.Fatalf("%s: %d %s, want %d %s %q", what, a.Status, a.Raw, status, code, texts)
	}
	return a
}

// Ask sends a request, with a bearer's token unless that is empty. body is JSON text or
// anything to encode, header holds names and values in turn. It may run outside the
// test's goroutine.
func Ask(t testing.TB, router http.Handler, token, method, path string, body any, header ...string) (a Answer) {
	t.Helper()
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		in = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			t.Error(err)
		}
		in = bytes.NewReader(raw)
	}
	req := httptest.NewRequestWithContext(t.Context(), method, path, in)
	if in != nil && body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for n := 0; n+1 < len(header); n += 2 {
		req.Header.Set(header[n], header[n+1])
	}
	rec := httptest.NewRecorder()
	router.ServeHTTP(rec, req)
	a = Answer{Status: rec.Code, Header: rec.Header(), Raw: rec.Body.Bytes()}
	_ = json.Unmarshal(a.Raw, &a.Doc) // what is no object has no members
	return a
}

// Token mints a token that is valid for an hour. It may run outside the test's goroutine.
func Token(t testing.TB, tokens *auth.Tokens, p auth.Principal) string {
	t.Helper()
	token, err := tokens.Mint(p, time.Hour)
	if err != nil {
		t.Error(err)
	}
	return token
}

// As sends a request as user 7 in a role and decodes the answer; header holds names
// and values in turn. It fails the test if the answer is not a JSON object.
func As(t testing.TB, router http.Handler, tokens *auth.Tokens, role auth.Role, method, path, body string, header ...string) (status int, doc map[string]any) {
	t.Helper()
	a := Ask(t, router, Token(t, tokens, auth.Principal{UserID: 7, Role: role}), method, path, body, header...)
	if a.Doc == nil {
		t.Fatalf("%s %s: %s", method, path, a.Raw)
	}
	return a.Status, a.Doc
}

// Dial connects to a server from an address of the loopback network and sends some
// bytes. The connection ends with the test; its reads and writes fail after 30 s.
func Dial(t testing.TB, server, from, bytes string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(t.Context(), "tcp", server)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	_, err = io.WriteString(c, bytes)
	require.NoError(t, err)
	return c
}

// Send sends a request to a server and returns the answer; it is Try for a request that must have one.
func Send(t testing.TB, client *http.Client, method, url, token, body string, header ...string) Answer {
	t.Helper()
	a, err := Try(t.Context(), client, method, url, token, body, header...)
	require.NoError(t, err)
	return a
}

// Try sends a request to a server, with a bearer's token and a JSON body unless they are
// empty; header holds names and values in turn, and an empty value removes the header.
func Try(ctx context.Context, client *http.Client, method, url, token, body string, header ...string) (a Answer, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return a, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for n := 0; n+1 < len(header); n += 2 {
		if req.Header.Set(header[n], header[n+1]); header[n+1] == "" {
			req.Header.Del(header[n])
		}
	}
	req.Host = req.Header.Get("Host")
	resp, err := client.Do(req)
	if err != nil {
		return a, err
	}
	defer func() { _ = resp.Body.Close() }()
	a = Answer{Status: resp.StatusCode, Header: resp.Header}
	if a.Raw, err = io.ReadAll(resp.Body); err == nil {
		_ = json.Unmarshal(a.Raw, &a.Doc) // what is no object has no members
	}
	return a, err
}
