package httpx

import (
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
)

// TestDeviceCookie: a client gets one signed cookie and is known by it, and made-up,
// altered and old ones prove nothing.
func TestDeviceCookie(t *testing.T) {
	t.Parallel()
	key, retired := []byte(strings.Repeat("k", auth.MinKeyBytes)), []byte(strings.Repeat("r", auth.MinKeyBytes))
	var given, proved [16]byte
	open := func(publicURL string, keys ...[]byte) func(cookie string) string {
		rt := Options{DeviceKeys: keys, PublicURL: publicURL}.NewRouter(auth.NewTokens(key, time.Now), slog.New(slog.DiscardHandler), "test", prometheus.NewRegistry())
		rt.Mux.Get("/", func(_ http.ResponseWriter, r *http.Request) {
			proved, given = Origin(r.Context()).Device, GiveDevice(r.Context())
		})
		return func(cookie string) string {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			if cookie != "" {
				r.Header.Set("Cookie", "other=1; "+DeviceCookie+"="+cookie)
			}
			w := httptest.NewRecorder()
			rt.ServeHTTP(w, r)
			return w.Header().Get("Set-Cookie")
		}
	}
	get := open("", key)
	set := get("")
	id := given
	value, attributes, _ := strings.Cut(strings.TrimPrefix(set, DeviceCookie+"="), "; ")
	if id == [16]byte{} || proved != [16]byte{} || attributes != "Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax" {
		t.Fatalf("the first answer: %s", set)
	}
	if set := open("https://shop.example.com", key)(""); !strings.HasSuffix(set, "; HttpOnly; Secure; SameSite=Lax") {
		t.Errorf("behind https: %s", set)
	}
	for name, get := range map[string]func(string) string{"again": get, "after a change of keys": open("", retired, key)} {
		if set := get(value); set != "" || given != id || proved != id {
			t.Errorf("%s: a new cookie %q for %x, proved %x", name, set, given, proved)
		}
	}
	raw, err := base64.RawURLEncoding.DecodeString(value)
	require.NoError(t, err)
	raw[0] ^= 1
	ours := devices{keys: auth.Keys("device-cookie", key)}
	theirs := devices{keys: auth.Keys("device-cookie", retired)}
	for name, cookie := range map[string]string{
		"altered": base64.RawURLEncoding.EncodeToString(raw), "made up": "noise", "of another shop": theirs.sign(id, time.Now()),
		"old": ours.sign(id, time.Now().Add(-deviceLife-time.Hour)), "longer": value + "A",
	} {
		if set := get(cookie); set == "" || proved != [16]byte{} || given == id {
			t.Errorf("%s: proved %x, answered %q", name, proved, set)
		}
	}
}
