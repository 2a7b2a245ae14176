package notify

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
)

// FuzzSubprotocol checks that only a valid token among the offers lets a client
// in, as the user that the token names.
func FuzzSubprotocol(f *testing.F) {
	b := setup(f, nil)
	good := b.token(f, 7)
	f.Add("stampede.v1, bearer." + good)
	f.Add("bearer." + good + ",bearer.x")
	f.Add("bearer.")
	f.Add(",, bearer." + good[:len(good)-1])
	f.Add("Bearer." + good)
	f.Add("bearer.\x00,stampede.v1")
	f.Fuzz(func(t *testing.T, offered string) {
		token, offers := "", false
		for word := range strings.SplitSeq(offered, ",") {
			if rest, ok := strings.CutPrefix(strings.TrimSpace(word), tokenPrefix); ok {
				token, offers = rest, true // the first one counts
				break
			}
		}
		if !offers {
			return // the token comes in the first message then
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		require.NoError(t, err)
		r.Header["Sec-Websocket-Protocol"] = []string{offered}
		p, err := b.service.authenticate(r, nil)
		want, refused := b.tokens.Verify(token)
		if (err == nil) != (refused == nil) || p != want {
			t.Fatalf("%q lets in %+v, %v", offered, p, err)
		}
		p.IssuedAt, p.ExpiresAt = time.Time{}, time.Time{}
		require.Equal(t, "a user that no token names", err == nil && p != (auth.Principal{UserID: 7, Role: auth.Shopper}), false)
	})
}

// FuzzFirstMessage checks that a first message with a valid token lets a client
// in that offers none, and that any other gets 1008.
func FuzzFirstMessage(f *testing.F) {
	b := setup(f, func(c *Config) { c.AuthTimeout = 10 * time.Second }) // no timeout decides here
	good := b.token(f, 7)
	f.Add([]byte(`{"token":"`+good+`"}`), true)
	f.Add([]byte(`{"token":"`+good+`","token":"x"}`), true)
	f.Add([]byte(`{"TOKEN":"`+good+`"}`), false)
	f.Add([]byte(`{"token":7}`), true)
	f.Add([]byte("\xff\xfe"), true)
	f.Add([]byte(strings.Repeat("[", 9<<10)), false)
	f.Fuzz(func(t *testing.T, message []byte, text bool) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		conn, _, err := websocket.Dial(ctx, b.url, nil)
		require.NoError(t, err)
		defer func() { _ = conn.CloseNow() }()
		kind := websocket.MessageBinary
		if text {
			kind = websocket.MessageText
		}
		var first struct{ Token string }
		valid := json.Unmarshal(message, &first) == nil && len(message) <= maxFrameBytes
		if _, err := b.tokens.Verify(first.Token); err != nil {
			valid = false
		}
		_ = conn.Write(ctx, kind, message) // one that is too long may be interrupted
		_, answer, err := conn.Read(ctx)
		switch status := websocket.CloseStatus(err); {
		case valid && (err != nil || string(answer) != `{"type":"hello"}`):
			t.Fatalf("%q was answered %q, %v", message, answer, err)
		case valid, len(message) > maxFrameBytes && err != nil:
		case status != websocket.StatusPolicyViolation:
			t.Fatalf("%q was answered %q, %v, want 1008", message, answer, err)
		}
	})
}
