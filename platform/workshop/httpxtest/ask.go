// Package httpxtest sends test requests to a router.
package httpxtest

import (
	"bytes"
	"encoding/json"
	"io"
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
