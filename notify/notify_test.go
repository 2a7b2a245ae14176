package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"stampede/order/disputeevent"
	"stampede/order/orderevent"
	"stampede/payment/paymentevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type bundle struct {
	service *Service
	tokens  *auth.Tokens
	router  *httpx.Router
	url     string
}

func setup(t testing.TB, change func(*Config), with ...auth.Option) bundle {
	t.Helper()
	return setupAt(t, time.Now, change, with...)
}

// setupAt is setup with the clock that tokens are checked by.
func setupAt(t testing.TB, now func() time.Time, change func(*Config), with ...auth.Option) bundle {
	t.Helper()
	cfg := DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	log := slog.New(slog.DiscardHandler)
	tokens := auth.NewTokens([]byte(strings.Repeat("k1", 16)), now, with...)
	s := New(cfg, Deps{Tokens: tokens, Broadcasts: make(broadcasts), Log: log, Metrics: prometheus.NewRegistry()})
	rt := httpx.NewRouter(tokens, log, "test", prometheus.NewRegistry())
	s.Routes(rt)
	srv := httptest.NewServer(rt)
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		srv.Close()
	})
	return bundle{s, tokens, rt, "ws" + strings.TrimPrefix(srv.URL, "http") + "/api/v1/ws"}
}

func (b bundle) token(t testing.TB, user int64) string {
	t.Helper()
	return httpxtest.Token(t, b.tokens, auth.Principal{UserID: user, Role: auth.Shopper})
}

// connect dials as a browser does and waits for the hello.
func (b bundle) connect(t *testing.T, user int64) *websocket.Conn {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), b.url, &websocket.DialOptions{Subprotocols: []string{"stampede.v1", "bearer." + b.token(t, user)}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.CloseNow() })
	require.Equal(t, "subprotocol", conn.Subprotocol(), "stampede.v1")
	require.Contains(t, "first message", read(t, conn), `"hello"`)
	return conn
}

func read(t *testing.T, conn *websocket.Conn) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, raw, err := conn.Read(ctx)
	require.NoError(t, err)
	return string(raw)
}

// mustClose requires that the server closes a socket with this status before ctx ends.
func mustClose(ctx context.Context, t *testing.T, conn *websocket.Conn, want websocket.StatusCode) {
	t.Helper()
	_, _, err := conn.Read(ctx)
	require.Equal(t, fmt.Sprintf("status of %v", err), websocket.CloseStatus(err), want)
}

func (b bundle) change(t *testing.T, orders ...orderevent.Order) {
	t.Helper()
	raw, err := json.Marshal(orderevent.Changed{Orders: orders})
	require.NoError(t, err)
	require.NoError(t, b.service.pushChanges(t.Context(), bus.Msg{Subject: orderevent.SubjectPaid, Data: raw}))
}

func TestChangeReachesOnlySocketsOfOwner(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	first, second, other := b.connect(t, 7), b.connect(t, 7), b.connect(t, 8)
	no := ids.NewFor(7)
	b.change(t, orderevent.Order{No: no, UserID: 7, Status: orderevent.StatusPaid, Version: 2})
	b.change(t, orderevent.Order{No: ids.NewFor(8), UserID: 8, Status: orderevent.StatusClosed, Version: 2})
	for _, conn := range []*websocket.Conn{first, second} {
		var m struct {
			Type  string               `json:"type"`
			Order orderevent.OrderView `json:"order"`
		}
		if err := json.Unmarshal([]byte(read(t, conn)), &m); err != nil || m.Type != "order" || m.Order.OrderNo != no || m.Order.Status != "paid" {
			t.Errorf("message %+v, %v", m, err)
		}
	}
	got := read(t, other)
	require.Contains(t, "the other user's", got, `"closed"`)
	require.Equal(t, "an order of another user in "+got, strings.Contains(got, no.String()), false)
}

// An event about a shopper reaches that shopper's sockets alone. The documents are those that other versions read.
func TestEventReachesItsShopper(t *testing.T) {
	t.Parallel()
	const dispute = `{"dispute_no":"0198f2c8b5d07c3e9a4f1b2c3d4e5f62","order_no":"0198f2c8b5d07c3e9a4f1b2c3d4e5f60","user_id":"USER",` +
		`"status":"closed","outcome":"refund","refund_no":"0198f2c8b5d07c3e9a4f1b2c3d4e5f63","version":3}`
	for filter, c := range map[string]struct{ event, want string }{
		disputeevent.SubjectAll: {dispute, `{"type":"dispute","dispute":` + dispute + `}`},
		paymentevent.SubjectSurplus: {
			`{"order_no":"0198f2c8b5d07c3e9a4f1b2c3d4e5f60","user_id":"USER","amount":9900,"currency":"CNY","reason":"late"}`,
			`{"type":"surplus","order_no":"0198f2c8b5d07c3e9a4f1b2c3d4e5f60","amount":{"amount":9900,"currency":"CNY"},"reason":"late"}`,
		},
	} {
		b := setup(t, nil)
		mine, other := b.connect(t, 7), b.connect(t, 8)
		subs := b.service.Subscriptions()
		handle := subs[slices.IndexFunc(subs, func(s bus.Subscription) bool { return s.Filter == filter })].Handle
		for _, user := range []string{"7", "9"} {
			require.NoError(t, handle(t.Context(), bus.Msg{Data: []byte(strings.ReplaceAll(c.event, "USER", user))}))
		}
		b.change(t, orderevent.Order{No: ids.NewFor(8), UserID: 8, Status: orderevent.StatusPaid, Version: 2})
		require.Equal(t, filter, read(t, mine), strings.ReplaceAll(c.want, "USER", "7"))
		require.Contains(t, "the other user's", read(t, other), `"paid"`)
		require.Equal(t, "an event that cannot be read is acknowledged", handle(t.Context(), bus.Msg{Data: []byte("{")}) == nil, false)
	}
}

func TestOneSocketTooManyIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.MaxPerUser, c.MaxSockets = 1, 2 })
	b.connect(t, 7)
	refused := func(user int64, status websocket.StatusCode) {
		t.Helper()
		conn, _, err := websocket.Dial(t.Context(), b.url, &websocket.DialOptions{Subprotocols: []string{"stampede.v1", "bearer." + b.token(t, user)}})
		require.NoError(t, err)
		mustClose(t.Context(), t, conn, status)
	}
	refused(7, websocket.StatusPolicyViolation)
	b.connect(t, 8)
	refused(9, websocket.StatusTryAgainLater) // it is the instance that is full
	b.service.hub.closed.Store(true)
	b.service.hub.cfg.MaxSockets = 0
	refused(9, websocket.StatusGoingAway)
}

func TestStopSaysGoingAway(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	conn := b.connect(t, 7)
	stopped := make(chan error, 1)
	go func() { stopped <- b.service.Stop(context.Background()) }()
	mustClose(t.Context(), t, conn, websocket.StatusGoingAway)
	require.NoError(t, <-stopped)
	require.Equal(t, "sockets after the stop", b.service.hub.count.Load(), 0)
}

// TestASilentClientDoesNotHoldUpTheStop has a client that never reads, so it
// never answers the close.
func TestASilentClientDoesNotHoldUpTheStop(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.connect(t, 7)
	ctx, cancel := context.WithTimeout(t.Context(), 3*closePatience)
	defer cancel()
	require.NoError(t, b.service.Stop(ctx))
	require.NoError(t, ctx.Err()) // the stop took no longer
}

// stuck is a connection whose writes block until their context ends, like those
// of a client that stopped reading.
type stuck struct {
	mu     sync.Mutex
	closed websocket.StatusCode
	writes int
}

func (c *stuck) Write(ctx context.Context, _ websocket.MessageType, _ []byte) error {
	c.mu.Lock()
	c.writes++
	c.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}
func (c *stuck) Ping(context.Context) error { return errors.New("no pong") }
func (c *stuck) Close(code websocket.StatusCode, _ string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = code
	return nil
}
func (c *stuck) CloseNow() error { return c.Close(-1, "") }
func (c *stuck) status() websocket.StatusCode {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func slowSetup(t *testing.T) (*hub, *socket, *stuck) {
	t.Helper()
	s := New(DefaultConfig(), Deps{Metrics: prometheus.NewRegistry()})
	c := &stuck{}
	sock := &socket{user: 7, conn: c, hub: s.hub}
	refused, _ := s.hub.add(sock)
	require.Equal(t, "refused", refused, 0)
	return s.hub, sock, c
}

func TestASlowClientIsClosedAfterFiveSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _, c := slowSetup(t)
		h.push(7, outgoing{raw: []byte("1")})
		time.Sleep(5*time.Second - time.Millisecond) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Equal(t, "status and connected before the time-out", fmt.Sprint(int(c.status()), h.connected(7)), "0 true")
		time.Sleep(2 * time.Millisecond) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Equal(t, "status, connected and counted", fmt.Sprint(int(c.status()), h.connected(7), testutil.ToFloat64(h.gauges.slow)), "1013 false 1")
	})
}

func TestClientWithFullQueueIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _, c := slowSetup(t)
		h.push(7, outgoing{raw: []byte("being written")})
		synctest.Wait()
		for range 16 {
			h.push(7, outgoing{raw: []byte("waiting")})
		}
		synctest.Wait()
		require.Equal(t, "status while the queue had room", c.status(), 0)
		h.push(7, outgoing{raw: []byte("one too many")})
		synctest.Wait()
		require.Equal(t, "status and counted", fmt.Sprint(int(c.status()), testutil.ToFloat64(h.gauges.slow)), "1013 1")
		time.Sleep(time.Minute) //nolint:forbidigo // lets the write under way time out in the bubble
		synctest.Wait()
		require.Equal(t, "counted", testutil.ToFloat64(h.gauges.slow), 1)
	})
}

func TestAClientWithoutPongIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _, c := slowSetup(t)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = h.runPings(ctx) }()
		time.Sleep(pingEvery + time.Second) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		cancel()
		synctest.Wait()
		require.Equal(t, "closed and connected", fmt.Sprint(c.status() != 0, h.connected(7)), "true false")
	})
}
