// Package officetest opens the back office over a stand-in of the API, for the tests of its
// sections.
package officetest

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/office"
	"stampede/platform/workshop/require"
)

// standIn is an API that lets an operator sign in.
type standIn struct {
	http.HandlerFunc

	tokens *auth.Tokens
	role   auth.Role
}

// Receive takes every form.
func (standIn) Receive(http.ResponseWriter, *http.Request, int64, bool) error { return nil }

func (s standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/api/v1/auth/login" {
		s.HandlerFunc(w, r)
		return
	}
	access, _ := s.tokens.Mint(auth.Principal{UserID: 5, Role: s.role, Login: 1}, 15*time.Minute) // the key is long enough
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": access, "refresh_token": "r", "expires_in": 900})
}

// Open signs an operator in to an office of one section, and returns how to open its pages in a
// language: with a form the one that answers it.
func Open(t testing.TB, section office.Section, role auth.Role, api http.HandlerFunc) func(path string, form url.Values, language string) string {
	t.Helper()
	key := []byte("a signing key of tests, long enough for all")
	tokens := auth.NewTokens(key, time.Now)
	o, err := office.New(office.Deps{
		API: standIn{api, tokens, role}, Tokens: tokens, SigningKeys: [][]byte{key}, Zone: time.UTC, PublicURL: "https://shop.example",
		Log: slog.New(slog.DiscardHandler),
	}, section)
	require.NoError(t, err)
	var cookies []*http.Cookie
	open := func(path string, form url.Values, language string) string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		if form != nil {
			r = httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		r.Header.Set("Accept-Language", language)
		for _, c := range cookies {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		o.ServeHTTP(w, r)
		cookies = append(cookies, w.Result().Cookies()...)
		return w.Body.String()
	}
	open("/admin/sign-in", url.Values{"phone": {"13800138000"}, "password": {"secret words"}}, "en")
	return open
}
