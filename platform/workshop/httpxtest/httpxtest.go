// Package httpxtest sends test requests to a router.
package httpxtest

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
)

// Answer is a router's answer. Doc is its body if that is a JSON object.
type Answer struct {
	Status int
	Header http.Header
	Raw    []byte
	Doc    map[string]any
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

// As sends a request as user 7 in a role and decodes the answer; header holds names
// and values in turn. It fails the test if the answer is not a JSON object.
func As(t testing.TB, router http.Handler, tokens *auth.Tokens, role auth.Role, method, path, body string, header ...string) (status int, doc map[string]any) {
	t.Helper()
	token, err := tokens.Mint(auth.Principal{UserID: 7, Role: role}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	a := Ask(t, router, token, method, path, body, header...)
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(c, bytes); err != nil {
		t.Fatal(err)
	}
	return c
}

// Send sends a request to a server and returns the answer; an empty host is the URL's.
// header holds names and values in turn, and is without those whose value is empty.
func Send(t testing.TB, method, url, host, body string, header ...string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	for n := 0; n+1 < len(header); n += 2 {
		if header[n+1] != "" {
			req.Header.Set(header[n], header[n+1])
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}
