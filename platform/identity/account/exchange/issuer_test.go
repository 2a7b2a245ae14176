package exchange

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
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
	_, err = i.keysOf(t.Context(), "first")
	require.NoError(t, err)
	_, err = i.keysOf(t.Context(), "made up")
	require.Contains(t, "of an issuer that answers", err.Error(), "has no key")
	away.Store(true)
	now = now.Add(2 * fetchPause)
	for range 2 {
		_, err = i.keysOf(t.Context(), "next")
		require.ErrorIs(t, err, errIssuer)
	}
	_, err = i.keysOf(t.Context(), "first")
	require.NoError(t, err)
}
