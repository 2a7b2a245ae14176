// Package oidctest is a shop's own login for tests: an issuer of ID tokens with its
// discovery document and keys, and a page on which its users log in.
package oidctest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"stampede/platform/workshop/require"
)

// Audience is whom the issuer's tokens are for.
const Audience = "stampede"

// Issuer is an issuer at URL; its tokens are signed with the key "first". Safe for
// concurrent use.
type Issuer struct {
	*httptest.Server
	t       testing.TB
	mu      sync.Mutex
	keys    map[string]crypto.Signer
	fetches int
	away    bool
	hold    chan struct{} // answers wait for it; nil does not
}

// New starts an issuer that ends with the test.
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{t: t, keys: map[string]crypto.Signer{}}
	i.Add("first")
	i.Server = httptest.NewServer(i)
	t.Cleanup(i.Close)
	return i
}

// Add gives the issuer another key.
func (i *Issuer) Add(id string) {
	i.t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(i.t, err)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys[id] = key
}

// Key is the public key with an id.
func (i *Issuer) Key(id string) crypto.PublicKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys[id].Public()
}

// GoAway makes it answer everything with 502, and with a channel only when that is closed.
func (i *Issuer) GoAway(hold chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.away, i.hold = true, hold
}

// Fetches is how often its keys were read.
func (i *Issuer) Fetches() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}

// ServeHTTP implements http.Handler.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	hold, away := i.hold, i.away
	keys := maps.Clone(i.keys)
	if r.URL.Path == "/keys" {
		i.fetches++
	}
	i.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}
	switch {
	case away:
		w.WriteHeader(http.StatusBadGateway)
	case r.URL.Path == "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	case r.URL.Path == "/login":
		i.login(w, r)
	default:
		var set jose.JSONWebKeySet
		for id, key := range keys {
			set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: id, Use: "sig"})
		}
		_ = json.NewEncoder(w).Encode(set)
	}
}

// login is the page on which users say who they are, and from which they return with a
// token, or without one if they decline. It leaves to the test which pages it returns to.
func (i *Issuer) login(w http.ResponseWriter, r *http.Request) {
	back := url.Values{"state": {r.FormValue("state")}}
	switch user := r.PostFormValue("user"); {
	case r.Method != http.MethodPost:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, `<!doctype html><title>Log in</title><form method="post"><input name="return" value="%s" readonly><input name="state" value="%s" readonly><input name="user"><button>Log in</button></form>`,
			html.EscapeString(r.FormValue("return")), html.EscapeString(r.FormValue("state"))) //nolint:gosec // escaped
		return
	case user == "":
		back.Set("error", "access_denied")
	default:
		back.Set("id_token", i.Token(user, nil))
	}
	http.Redirect(w, r, r.PostFormValue("return")+"#"+back.Encode(), http.StatusSeeOther) //nolint:gosec // a test's
}

// Token is one of a user, with a phone and an e-mail address that the issuer has verified, changed as the test
// says. A header "sign" is the key that signs it.
func (i *Issuer) Token(subject string, change func(*jwt.Token, jwt.MapClaims)) string {
	i.t.Helper()
	claims := jwt.MapClaims{
		"iss": i.URL, "aud": Audience, "sub": subject, "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(),
		"phone_number": "13800138000", "phone_number_verified": true, "email": "li@example.com", "email_verified": true, "nickname": "Li",
	}
	token := jwt.NewWithClaims(jwt.SigningMethodRS256, claims)
	token.Header["kid"] = "first"
	if change != nil {
		change(token, claims)
	}
	id, _ := token.Header["kid"].(string)
	i.mu.Lock()
	var key any = i.keys["first"]
	if own, ok := i.keys[id]; ok {
		key = own
	}
	i.mu.Unlock()
	if given, ok := token.Header["sign"]; ok {
		delete(token.Header, "sign")
		key = given
	}
	signed, err := token.SignedString(key)
	require.NoError(i.t, err)
	return signed
}
