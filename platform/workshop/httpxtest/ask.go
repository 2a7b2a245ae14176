// Package httpxtest sends test requests to a router.
package httpxtest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
)

// As sends a request as user 7 in a role and decodes the answer; header holds names
// and values in turn. It fails the test if the answer is not a JSON object.
func As(t testing.TB, router http.Handler, tokens *auth.Tokens, role auth.Role, method, path, body string, header ...string) (status int, doc map[string]any) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	token, err := tokens.Mint(auth.Principal{UserID: 7, Role: role}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	for n := 0; n+1 < len(header); n += 2 {
		req.Header.Set(header[n], header[n+1])
	}
	rec := httptest.NewRecorder()
	router.ServeHTTP(rec, req)
	if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
		t.Fatalf("%s %s: %s", method, path, rec.Body)
	}
	return rec.Code, doc
}
