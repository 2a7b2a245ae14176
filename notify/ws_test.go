package notify

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"stampede/platform/workshop/require"
)

func TestClientWithoutTokenIsClosed(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.AuthTimeout = 200 * time.Millisecond })
	for name, says := range map[string]string{"silent": "", "half a message": strings.Repeat(" ", 6<<10)} {
		conn, _, err := websocket.Dial(t.Context(), b.url, nil)
		require.NoError(t, err)
		if says != "" {
			w, err := conn.Writer(t.Context(), websocket.MessageText)
			require.NoError(t, err)
			_, err = io.WriteString(w, says) // more than is buffered, and never ended
			require.NoError(t, err)
		}
		_, _, err = conn.Read(t.Context())
		require.Equal(t, name, websocket.CloseStatus(err), websocket.StatusPolicyViolation)
		_ = conn.CloseNow()
	}
}

func TestRefusedHandshakesAreProblems(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Origins = []string{"https://www.shop.example"} })
	handshake := map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
	}
	for name, c := range map[string]struct {
		change map[string]string // of the handshake; "" leaves a header out
		status int
		code   string
		header string
	}{
		"no upgrade":       {map[string]string{"Connection": "", "Upgrade": ""}, 426, "upgrade-required", "Upgrade"},
		"another protocol": {map[string]string{"Upgrade": "h2c"}, 426, "upgrade-required", "Upgrade"},
		"an old version":   {map[string]string{"Sec-WebSocket-Version": "8"}, 400, "bad-request", "Sec-WebSocket-Version"},
		"no key":           {map[string]string{"Sec-WebSocket-Key": ""}, 400, "bad-request", ""},
		"plain http":       {map[string]string{"Origin": "http://www.shop.example"}, 403, "forbidden", ""},
		"a longer origin":  {map[string]string{"Origin": "https://www.shop.example.evil.example"}, 403, "forbidden", ""},
		"a foreign origin": {map[string]string{"Origin": "https://evil.example"}, 403, "forbidden", ""},
		"no origin":        {map[string]string{"Origin": "null"}, 403, "forbidden", ""},
		"a known origin":   {map[string]string{"Origin": "https://www.shop.example"}, 101, "", ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http"+strings.TrimPrefix(b.url, "ws"), nil)
		require.NoError(t, err)
		for k, v := range handshake {
			req.Header.Set(k, v)
		}
		for k, v := range c.change {
			if req.Header.Set(k, v); v == "" {
				req.Header.Del(k)
			}
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		require.NoError(t, err)
		var p struct {
			Code   string
			Status int
		}
		if resp.StatusCode != http.StatusSwitchingProtocols {
			if err := json.NewDecoder(resp.Body).Decode(&p); err != nil || resp.Header.Get("Content-Type") != "application/problem+json" || p.Status != c.status {
				t.Errorf("%s: %s with %+v: %v", name, resp.Header.Get("Content-Type"), p, err)
			}
		}
		_ = resp.Body.Close()
		require.Equal(t, name, []any{resp.StatusCode, p.Code}, []any{c.status, c.code})
		if c.header != "" && resp.Header.Get(c.header) == "" {
			t.Errorf("%s: no header %s", name, c.header)
		}
	}
}

func TestSocketsWithoutATokenAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.MaxUnnamed = 2 })
	dial := func() *websocket.Conn {
		t.Helper()
		conn, _, err := websocket.Dial(t.Context(), b.url, nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.CloseNow() })
		return conn
	}
	first, _ := dial(), dial()
	if _, res, err := websocket.Dial(t.Context(), b.url, nil); err == nil || res == nil || res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Fatalf("a third without a token: %v, %v; want 503", res, err)
	}
	b.connect(t, 7) // with its token
	require.NoError(t, first.Write(t.Context(), websocket.MessageText, []byte(`{"token":"`+b.token(t, 8)+`"}`)))
	require.Contains(t, "answer", read(t, first), "hello")
	dial() // the token has made room
}
