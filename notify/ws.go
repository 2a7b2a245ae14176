package notify

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/coder/websocket"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
)

// protocol is the subprotocol that the server accepts. A browser, which cannot
// set headers on a WebSocket, offers it together with "bearer.<token>"; the
// token is never in the query string, where logs would keep it.
const (
	protocol    = "stampede.v1"
	tokenPrefix = "bearer."
)

// maxFrameBytes bounds what a client may send: one token.
const maxFrameBytes = 8 << 10

// path is where clients connect.
const path = "/api/v1/ws"

// Routes adds GET /api/v1/ws and /api/v1/sse.
func (s *Service) Routes(rt *httpx.Router) {
	rt.Handle(httpx.Held, http.MethodGet, path, s.connect)
	document(rt.API.Huma.OpenAPI())
	s.streamRoute(rt.API)
}

// connect accepts a socket.
func (s *Service) connect(w http.ResponseWriter, r *http.Request) {
	if sock := s.admit(w, r); sock != nil {
		go sock.flush()
	}
}

// admit returns the socket of a client with a valid token; nil if the request
// was refused or the connection closed. It checks the token after the upgrade,
// because the token may come as the first message.
func (s *Service) admit(w http.ResponseWriter, r *http.Request) *socket {
	client := httpx.ClientAddr(r.Context())
	_, offered := offeredToken(r)
	if !offered && auth.From(r.Context()).UserID == 0 {
		if !s.enterUnnamed(client) {
			httpx.WriteProblem(w, r, errUnnamed)
			return nil
		}
		defer s.unnamed.Leave(client)
	}
	conn, err := websocket.Accept(&problems{ResponseWriter: w, request: r}, r, &websocket.AcceptOptions{
		Subprotocols: []string{protocol}, OriginPatterns: s.cfg.Origins,
		// A context per connection for compression costs tens of KiB; messages are 400 bytes.
		CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil // Accept has answered
	}
	conn.SetReadLimit(maxFrameBytes)
	admitted := httpx.Idle(r.Context()) // a refusal waits for the client too
	p, err := s.authenticate(r, conn)
	if err != nil {
		if fault.From(err).Kind == fault.Unavailable {
			_ = conn.Close(websocket.StatusTryAgainLater, "tokens cannot be checked right now") // as below
			return nil
		}
		if offered {
			if !s.enterUnnamed(client) {
				_ = conn.CloseNow() // without the reason, which the client may take 5 s to acknowledge
				return nil
			}
			defer s.unnamed.Leave(client)
		}
		refuseToken(conn)
		return nil
	}
	sock := &socket{user: p.UserID, who: p, conn: conn, hub: s.hub, queue: []outgoing{greeting}, writing: true} // connect writes
	if refused, why := s.hub.add(sock); refused != 0 {
		_ = conn.Close(refused, why)
		return nil
	}
	admitted()
	// The handler returns so that its goroutine and the request's buffers are
	// freed, which is why the context does not come from the request; CloseRead's
	// goroutine answers pings and ends with the connection.
	closed := conn.CloseRead(context.Background())
	context.AfterFunc(closed, func() { s.hub.remove(sock) }) //nolint:contextcheck // see above
	// A revocation since the token was checked has missed this socket, which was not
	// in the hub yet.
	if s.ended(r.Context(), sock) {
		return nil
	}
	return sock
}

// enterUnnamed takes a place for a connection without a valid token. This machine has
// no bound of its own: a proxy may run on it.
func (s *Service) enterUnnamed(client netip.Addr) bool {
	ofAddress := max(1, s.cfg.MaxUnnamed/unnamedOfAddress)
	if client.IsLoopback() {
		ofAddress = 0
	}
	return s.unnamed.Enter(client, ofAddress, s.cfg.MaxUnnamed)
}

// authenticate reads the token from the Authorization header, the subprotocol
// or the first message {"token": "…"}, whichever the client can send.
func (s *Service) authenticate(r *http.Request, conn *websocket.Conn) (auth.Principal, error) {
	if p := auth.From(r.Context()); p.UserID != 0 {
		return p, nil
	}
	if token, ok := offeredToken(r); ok {
		return s.deps.Tokens.Admit(r.Context(), token)
	}
	// A Read whose context ends drops the connection without a close frame, so a
	// timer closes it properly, which makes Read fail.
	late := time.AfterFunc(s.cfg.AuthTimeout, func() { refuseToken(conn) })
	_, raw, err := conn.Read(r.Context())
	if !late.Stop() || err != nil {
		return auth.Principal{}, auth.ErrNoToken.Because(err)
	}
	var first struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal(raw, &first); err != nil {
		return auth.Principal{}, auth.ErrBadToken.Because(err)
	}
	return s.deps.Tokens.Admit(r.Context(), first.Token)
}

// offeredToken is the first token among the subprotocols that the client offers.
func offeredToken(r *http.Request) (token string, ok bool) {
	for _, header := range r.Header.Values("Sec-WebSocket-Protocol") {
		for offered := range strings.SplitSeq(header, ",") {
			if token, ok := strings.CutPrefix(strings.TrimSpace(offered), tokenPrefix); ok {
				return token, true
			}
		}
	}
	return "", false
}

// refuseToken closes with 1008. A second call waits for the first.
func refuseToken(conn *websocket.Conn) {
	_ = conn.Close(websocket.StatusPolicyViolation, "send a valid access token") // a client that does not answer is cut by the library
}
