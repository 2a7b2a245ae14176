package notify

import (
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// endedLogins is a set of revoked logins that a test adds to.
type endedLogins struct {
	mu      sync.Mutex
	logins  map[int64]bool
	version atomic.Uint64
	asked   atomic.Int64
	onAsk   func() // runs before the answer
}

// unknownLogin is a login whose revocation cannot be checked.
const unknownLogin = 99

func (e *endedLogins) end(login int64) {
	e.mu.Lock()
	next := maps.Clone(e.logins)
	if next == nil {
		next = map[int64]bool{}
	}
	next[login] = true
	e.logins = next
	e.mu.Unlock()
	e.version.Add(1)
}

func (e *endedLogins) Revoked(_ context.Context, p auth.Principal) (bool, error) {
	e.asked.Add(1)
	if p.Login == unknownLogin {
		return false, fault.Plain(fault.Unavailable, fault.T("Not known.", "未知。"))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	answer := e.logins[p.Login]
	if e.onAsk != nil {
		e.onAsk()
	}
	return answer, nil
}

func (e *endedLogins) Version() uint64 { return e.version.Load() }

// as dials with the token of a login and returns what follows the handshake.
func (b bundle) as(t *testing.T, user, login int64) (*websocket.Conn, error) {
	t.Helper()
	token, err := b.tokens.Mint(auth.Principal{UserID: user, Role: auth.Shopper, Login: login}, time.Minute)
	require.NoError(t, err)
	conn, _, err := websocket.Dial(t.Context(), b.url, &websocket.DialOptions{Subprotocols: []string{protocol, tokenPrefix + token}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.CloseNow() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, first, err := conn.Read(ctx)
	if err == nil && !strings.Contains(string(first), `"hello"`) {
		t.Fatalf("first message %s", first)
	}
	return conn, err
}

// TestTheSocketsOfAnEndedLoginClose: sockets of the user's other logins stay.
func TestTheSocketsOfAnEndedLoginClose(t *testing.T) {
	t.Parallel()
	ended := &endedLogins{}
	b := setup(t, nil, auth.RevokedBy(ended))
	pgtest.Work(t, b.service.closeEnded)
	phone, err := b.as(t, 7, 1)
	require.NoError(t, err)
	desktop, err := b.as(t, 7, 2)
	require.NoError(t, err)
	ended.end(2)
	began := time.Now()
	within, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	if _, _, err := desktop.Read(within); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("the ended login's socket: %v after %s, want 1008", err, time.Since(began))
	}
	quiet, stop := context.WithTimeout(t.Context(), 2*sweepEvery)
	defer stop()
	if _, _, err := phone.Read(quiet); websocket.CloseStatus(err) != -1 {
		t.Errorf("the other login's socket: %v, want it open", err)
	}
}

// TestAttackSocketOutlivesItsToken: a copied access token that has expired receives no
// more orders.
func TestAttackSocketOutlivesItsToken(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	b := setupAt(t, func() time.Time { return time.Now().Add(time.Duration(later.Load())) }, nil)
	pgtest.Work(t, b.service.closeEnded)
	const user = 1 // in a shard that is swept early
	conn, err := b.as(t, user, 1)
	require.NoError(t, err)
	b.change(t, orderevent.Order{UserID: user, Title: "before"})
	if got := read(t, conn); !strings.Contains(got, "before") {
		t.Errorf("pushed %s", got)
	}
	later.Store(int64(2 * time.Minute))
	within, stop := context.WithTimeout(t.Context(), 60*time.Second) // three times the promise
	defer stop()
	if _, _, err := conn.Read(within); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("after the token's expiry: %v, want 1008", err)
	}
}

// TestAnEndedLoginDoesNotConnect, neither after a known revocation nor after one
// that arrives between the check of the token and the socket's entry in the hub.
func TestAnEndedLoginDoesNotConnect(t *testing.T) {
	t.Parallel()
	ended := &endedLogins{}
	b := setup(t, nil, auth.RevokedBy(ended))
	ended.end(1)
	if _, err := b.as(t, 7, 1); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("with an ended login: %v, want 1008", err)
	}
	if _, err := b.as(t, 7, unknownLogin); websocket.CloseStatus(err) != websocket.StatusTryAgainLater {
		t.Errorf("when it cannot be checked: %v, want 1013", err)
	}
	ended.onAsk = func() {
		ended.onAsk = nil
		ended.logins = map[int64]bool{2: true}
	}
	if _, err := b.as(t, 7, 2); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("with a login that ends meanwhile: %v, want 1008", err)
	}
}

// TestSocketsAreSweptOnlyAfterRevocation: 30,000 sockets are not iterated
// four times a second without need.
func TestSocketsAreSweptOnlyAfterRevocation(t *testing.T) {
	t.Parallel()
	ended := &endedLogins{}
	b := setup(t, nil, auth.RevokedBy(ended))
	conn, err := b.as(t, 7, 1)
	require.NoError(t, err)
	before := ended.asked.Load()
	ctx, cancel := context.WithTimeout(t.Context(), 3*sweepEvery)
	defer cancel()
	require.NoError(t, b.service.closeEnded(ctx))
	require.Equal(t, "checks without a revocation", ended.asked.Load()-before, 0)
	_ = conn.CloseNow()
}
