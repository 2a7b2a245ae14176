package exchange

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"stampede/platform/edge/outbound"
	"stampede/platform/workshop/require"
)

// An issuer that went away after it had begun to sign with another key: nobody can say that a token of that is wrong,
// neither who asks first nor who comes in the pause after that.
func TestKeyOfAnIssuerThatWentAway(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	var away atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if away.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "first"}}})
	}))
	t.Cleanup(server.Close)
	now := time.Now()
	i := &issuer{set: Settings{Issuer: server.URL, JWKSURL: server.URL}, client: outbound.New(outbound.Config{Peer: "issuer", Timeout: time.Minute, Attempts: 1, MaxBytes: keysBytes}), now: func() time.Time { return now }}
	probe := (&Service{issuer: i}).Probes()[0]
	raised := func(when string, want bool) {
		t.Helper()
		found, err := probe.Look(t.Context())
		require.NoError(t, err)
		require.Equal(t, "issuer-away "+when, len(found) == 1 && found[0].Subject == server.URL, want)
	}
	require.Equal(t, "alarm", probe.Alarm.Code, "issuer-away")
	require.Equal(t, "lasts", probe.For, time.Minute)
	away.Store(true)
	raised("from the start on, before the first login", true)
	away.Store(false)
	now = now.Add(2 * fetchPause)
	raised("back, without a login", false)
	require.Equal(t, "keys", i.count(), 1)
	_, err = i.keysOf(t.Context(), "first")
	require.NoError(t, err)
	now = now.Add(2 * fetchPause)
	_, err = i.keysOf(t.Context(), "made up")
	require.Contains(t, "of an issuer that answers", err.Error(), "has no key")
	away.Store(true)
	now = now.Add(2 * fetchPause)
	raised("while known keys suffice", false)
	for range 2 {
		_, err = i.keysOf(t.Context(), "next")
		require.ErrorIs(t, err, errIssuer)
	}
	_, err = i.keysOf(t.Context(), "first")
	require.NoError(t, err)
	raised("while a login fails", true)
	away.Store(false)
	now = now.Add(2 * fetchPause)
	raised("after its return", false)
	raised("after that", false)
}

// An issuer also lists keys that this program cannot read, of a new kind or damaged: they stop no other key (RFC 7517, 5).
func TestKeysThatCannotBeRead(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	good, err := json.Marshal(jose.JSONWebKey{Key: key.Public(), KeyID: "first"})
	require.NoError(t, err)
	keys := string(good)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"keys":[`+keys+`]}`) }))
	t.Cleanup(server.Close)
	i := &issuer{set: Settings{Issuer: server.URL, JWKSURL: server.URL}, client: outbound.New(outbound.Config{Peer: "issuer", Timeout: time.Minute, Attempts: 1, MaxBytes: keysBytes}), now: time.Now}
	t.Cleanup(i.client.CloseIdleConnections)
	for _, other := range []string{
		`{"kty":"OKP","crv":"X25519","kid":"x","x":"3p7bfXt9wbTTW2HC7OQ1Nz-DQ8hbeGdNrfx-FG-IK08"}`, `{"kty":"EC","crv":"secp256k1","kid":"k","x":"AQ","y":"AQ"}`,
		`{"kty":"AKP","alg":"ML-DSA-44","kid":"pq","pub":"AA"}`, `{"kty":"RSA","kid":"damaged"}`, `{"kty":7}`, `7`, `null`, `{"kty":"oct","kid":"first","k":"AAAA"}`,
	} {
		keys = other + "," + string(good)
		found, err := i.fetch(t.Context())
		require.NoError(t, err)
		i.keys = found
		usable, _ := i.known("first")
		require.Equal(t, "keys beside "+other, len(usable), 1)
	}
	keys = `{"kty":"AKP","kid":"pq"}`
	if _, err := i.fetch(t.Context()); err == nil {
		t.Error("no key can be read, and that is no error")
	}
}
