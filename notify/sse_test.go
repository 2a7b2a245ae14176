package notify

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// opened is how a stream was answered; leave ends it from the client's side.
type opened struct {
	status int
	header http.Header
	leave  func() error
}

// events opens a user's stream; next returns its next event with data, as its lines.
func (b bundle) events(t *testing.T, user int64, lastID string) (answer opened, next func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // above pgtest.Eventually's
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http"+strings.TrimSuffix(strings.TrimPrefix(b.url, "ws"), "/ws")+"/sse", nil)
	require.NoError(t, err)
	if req.Header.Set("Authorization", "Bearer "+b.token(t, user)); lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	return opened{resp.StatusCode, resp.Header, resp.Body.Close}, func() string {
		t.Helper()
		var event []string
		for lines.Scan() {
			if lines.Text() != "" {
				event = append(event, lines.Text())
				continue
			}
			if whole := strings.Join(event, "\n"); strings.Contains(whole, "\ndata: ") {
				return whole
			}
			event = nil
		}
		return "ended"
	}
}

func idOf(t *testing.T, event string) int64 {
	t.Helper()
	text, _, _ := strings.Cut(strings.TrimPrefix(event, "id: "), "\n")
	id, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return id
}

// A stream has the same messages as a socket, and one that is resumed begins with what
// changed since.
func TestStreamIsASocketThatResumes(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	var asked time.Time
	fails := false
	missed := orderevent.OrderView{OrderNo: ids.NewFor(9), Status: "closed", Version: 2}
	b.service.deps.Changed = func(ctx context.Context, since time.Time) ([]orderevent.OrderView, error) {
		require.Equal(t, "whose orders are asked for", auth.From(ctx).UserID, int64(9))
		if asked = since; fails {
			return nil, errors.New("away")
		}
		return []orderevent.OrderView{missed}, nil
	}
	first, next := b.events(t, 7, "")
	require.Equal(t, "content type", first.header.Get("Content-Type"), "text/event-stream")
	require.Contains(t, "first", next(), `data: {"type":"hello"}`)
	require.Equal(t, "a new stream asks for changes", asked, time.Time{})
	for i := range b.service.hub.shards {
		b.service.hub.each(i, func(sock *socket) { sock.ping(t.Context()) })
	}
	b.change(t, orderevent.Order{No: ids.NewFor(7), UserID: 7, Status: "paid", Version: 3}, orderevent.Order{No: ids.NewFor(8), UserID: 8, Status: "paid"})
	push := next()
	require.Contains(t, "push", push, `data: {"type":"order","order":{`)
	require.Contains(t, "push", push, `"version":3`)

	// Until the client has what it missed, events have the id that it came with: it may be cut off again.
	const last = 1763035200000
	_, again := b.events(t, 9, strconv.Itoa(last))
	for what, want := range []string{`{"type":"hello"}`, missed.OrderNo.String()} {
		event := again()
		require.Contains(t, fmt.Sprint("event ", what), event, want)
		require.Equal(t, fmt.Sprint("its id ", what), idOf(t, event), int64(last))
	}
	require.Equal(t, "since", asked, time.UnixMilli(last).Add(-resumeMargin))
	pgtest.Eventually(t, 30*time.Second, func() bool { // the pushes after it are what there is to wait for
		b.change(t, orderevent.Order{No: ids.NewFor(9), UserID: 9, Status: "paid"})
		return idOf(t, again()) > last
	}, "an id that is the time")

	fails = true
	_, third := b.events(t, 9, "1")
	require.Contains(t, "orders away", third()+third(), "event: close\ndata: {\"code\":1013,")
	require.Equal(t, "after the close", third(), "ended")

	require.NoError(t, b.service.EndStreams(t.Context()))
	require.Contains(t, "stop", next(), `{"code":1001,`)
	require.Equal(t, "after the stop", next(), "ended")
	_, late := b.events(t, 7, "")
	require.Contains(t, "a stream during the stop", late()+late(), `{"code":1001,`)
}

func TestStreamsAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.MaxPerUser = 1 })
	for _, id := range []string{"x", "-1", "1.5", "99999999999999999999", "9223372036854775807", "32503680000000"} {
		wrong, _ := b.events(t, 7, id)
		require.Equal(t, id, wrong.status, http.StatusBadRequest)
	}
	w := httptest.NewRecorder()
	b.router.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, streamPath, nil))
	require.Equal(t, "without a token", w.Code, http.StatusUnauthorized)
	b.connect(t, 7)
	second, _ := b.events(t, 7, "")
	require.Equal(t, "beside a socket of a user who may have one", fmt.Sprint(second.status, " after ", second.header.Get("Retry-After")), "503 after 1")
	other, next := b.events(t, 8, "")
	require.Contains(t, "another user's", next(), "hello")
	require.NoError(t, other.leave())
	pgtest.Eventually(t, 30*time.Second, func() bool { return !b.service.hub.connected(8) }, "the user who left to be forgotten")
}

// A login that is ended ends its stream.
func TestStreamEndsWithItsLogin(t *testing.T) {
	t.Parallel()
	ended := &endedLogins{}
	b := setup(t, nil, auth.RevokedBy(ended))
	pgtest.Work(t, b.service.closeEnded)
	_, next := b.events(t, 7, "")
	require.Contains(t, "first", next(), "hello")
	ended.end(0) // of a token that belongs to no login
	require.Contains(t, "close", next(), `event: close`+"\n"+`data: {"code":1008,`)
	require.Equal(t, "after it", next(), "ended")
}
