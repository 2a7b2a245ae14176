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
	within, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	mustClose(within, t, desktop, websocket.StatusPolicyViolation)
	quiet, stop := context.WithTimeout(t.Context(), 2*sweepEvery)
	defer stop()
	mustClose(quiet, t, phone, -1) // it stays open
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
	require.Contains(t, "pushed", read(t, conn), "before")
	later.Store(int64(2 * time.Minute))
	within, stop := context.WithTimeout(t.Context(), 60*time.Second) // three times the promise
	defer stop()
	mustClose(within, t, conn, websocket.StatusPolicyViolation)
}

// TestAnEndedLoginDoesNotConnect, neither after a known revocation nor after one
// that arrives between the check of the token and the socket's entry in the hub.
func TestAnEndedLoginDoesNotConnect(t *testing.T) {
	t.Parallel()
	ended := &endedLogins{}
	b := setup(t, nil, auth.RevokedBy(ended))
	ended.end(1)
	_, err := b.as(t, 7, 1)
	require.Equal(t, "with an ended login", websocket.CloseStatus(err), websocket.StatusPolicyViolation)
	_, err = b.as(t, 7, unknownLogin)
	require.Equal(t, "when it cannot be checked", websocket.CloseStatus(err), websocket.StatusTryAgainLater)
	ended.onAsk = func() {
		ended.onAsk = nil
		ended.logins = map[int64]bool{2: true}
	}
	_, err = b.as(t, 7, 2)
	require.Equal(t, "with a login that ends meanwhile", websocket.CloseStatus(err), websocket.StatusPolicyViolation)
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
