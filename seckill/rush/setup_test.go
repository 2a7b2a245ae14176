package rush

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/queue"
	"stampede/seckill/seckillevent"
)

// bundle is a shop whose instances issue paths and take rushes.
type bundle struct{ *seckilltest.Bundle }

func setup(t testing.TB, stock ...func(*inventory.Config)) *bundle {
	t.Helper()
	return &bundle{seckilltest.New(t, stock...)}
}

// instance is one process of the shop.
type instance struct {
	*bundle
	listing *seckilltest.Listing
	rush    *Service
	queue   *queue.Queue
	metrics *prometheus.Registry
	rt      *httpx.Router
	clock   *seckilltest.Clock
}

// instance starts a process that sells the items.
func (y *bundle) instance(items []*catalogue.Item, change ...func(*Config)) *instance {
	y.T.Helper()
	return y.signing(seckilltest.Key, items, change...)
}

// signing is instance with a different signing key.
func (y *bundle) signing(key []byte, items []*catalogue.Item, change ...func(*Config)) *instance {
	y.T.Helper()
	cfg := DefaultConfig()
	for _, f := range change {
		f(&cfg)
	}
	i := &instance{bundle: y, listing: seckilltest.NewListing(y.T, items...), clock: new(seckilltest.Clock), metrics: prometheus.NewRegistry()}
	i.queue = y.NewQueue(i.listing.Catalogue, i.metrics)
	deps := Deps{
		Catalogue: i.listing.Catalogue, Bus: y.Bus, Redis: y.Redis, Grants: i.queue, Stock: y.NewStock(), Orders: y.Orders, Clock: i.clock, Log: slog.New(slog.DiscardHandler),
		Metrics: i.metrics, SigningKey: key, ShortestPay: 10 * time.Second,
	}
	deps.Places = NewPlaces(cfg, deps.Catalogue, deps.Stock, deps.Grants, deps.Clock)
	var err error
	i.rush, err = New(cfg, deps)
	require.NoError(y.T, err)
	i.rt = httpx.NewRouter(auth.NewTokens(key, time.Now), deps.Log, "test", prometheus.NewRegistry())
	i.rush.Routes(i.rt)
	y.T.Cleanup(i.rush.lanes.drain)
	return i
}

// work runs the worker that listens for returns and maintains the lanes, until
// the returned function is called.
func (i *instance) work() (stop func()) { return i.Run(i.rush.keepLanes) }

// issue gets a path for a user.
func (i *instance) issue(user int64, it *catalogue.Item, quantity int32) rushPath {
	i.T.Helper()
	answer, err := i.tryIssue(user, it.ID, quantity)
	require.NoError(i.T, err)
	return answer.Body
}

func (i *instance) tryIssue(user, item int64, quantity int32) (*PathAnswer, error) {
	ctx := auth.Into(i.T.Context(), auth.Principal{UserID: user, Role: auth.Shopper})
	return i.rush.issue(ctx, &PathRequest{ID: strconv.FormatInt(item, 10), Body: &rushPathRequest{Quantity: quantity}})
}

// answer is the answer to a rush.
type answer struct {
	Status     int
	Header     http.Header
	Code       string `json:"code"`
	Title      string `json:"title"`
	OrderNo    string `json:"order_no"`
	State      string `json:"status"`
	Position   int64  `json:"position"`
	Seconds    int64  `json:"estimated_seconds"`
	PollAfter  int64  `json:"poll_after_ms"`
	RequestID  string `json:"request_id"`
	RetryAfter string
}

// UnmarshalJSON reads tickets and problems, whose status members differ in
// type.
func (a *answer) UnmarshalJSON(data []byte) error {
	type plain answer
	raw := struct {
		*plain
		Status any `json:"status"`
	}{plain: (*plain)(a)}
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	switch v := raw.Status.(type) {
	case string:
		a.State = v
	case float64:
		if int(v) != a.Status {
			return errors.New("the problem's status is not the answer's")
		}
	}
	return nil
}

// want requires a status and, unless it is empty, a problem's code, and a Retry-After if
// one is given; what names the answer.
func (a answer) want(t testing.TB, what string, status int, code string, retryAfter ...string) {
	t.Helper()
	if a.Status != status || code != "" && a.Code != code || len(retryAfter) > 0 && a.RetryAfter != retryAfter[0] {
		t.Fatalf("%s: %+v, want %d %s %s", what, a, status, code, retryAfter)
	}
}

// accepted requires the 202 of a path's number, in a state unless that is empty.
func (a answer) accepted(t testing.TB, what string, p rushPath, state string) {
	t.Helper()
	if a.Status != http.StatusAccepted || a.OrderNo != p.OrderNo || state != "" && a.State != state {
		t.Fatalf("%s: %+v, want 202 %s %s", what, a, p.OrderNo, state)
	}
}

// send rushes with a path, through the shoppers' router.
func (i *instance) send(path string) answer {
	return i.do(httptest.NewRequest(http.MethodPost, rushPrefix+path, nil))
}

func (i *instance) do(req *http.Request) answer {
	rec := httptest.NewRecorder()
	i.rt.ServeHTTP(rec, req)
	res := rec.Result()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		i.T.Error(err)
	}
	a := answer{Status: res.StatusCode, Header: res.Header, RetryAfter: res.Header.Get("Retry-After")}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &a); err != nil {
			i.T.Errorf("%d %s: %v", res.StatusCode, body, err)
		}
		if res.ContentLength != int64(len(body)) {
			i.T.Errorf("Content-Length %d for %d bytes", res.ContentLength, len(body))
		}
		if id := res.Header.Get("X-Request-Id"); res.StatusCode != http.StatusAccepted && (id == "" || a.RequestID != id) {
			i.T.Errorf("%d: request id %q in the body, %q in the header", res.StatusCode, a.RequestID, id)
		}
		if strings.Contains(res.Header.Get("Content-Type"), "problem") == (res.StatusCode == http.StatusAccepted) {
			i.T.Errorf("%d as %s", res.StatusCode, res.Header.Get("Content-Type"))
		}
	}
	return a
}

// buy gets a path and rushes with it.
func (i *instance) buy(user int64, it *catalogue.Item) (rushPath, answer) {
	i.T.Helper()
	p := i.issue(user, it, 1)
	return p, i.send(p.Path)
}

// buys is buy where the answer must have a status and, unless it is empty, a problem's code.
func (i *instance) buys(what string, user int64, it *catalogue.Item, status int, code string, retryAfter ...string) answer {
	i.T.Helper()
	_, a := i.buy(user, it)
	a.want(i.T, what, status, code, retryAfter...)
	return a
}

// inLine requires the position of a user's number in the line of an item, which is nil
// for a number that is in no line.
func (i *instance) inLine(what string, user int64, no ids.ID, it *catalogue.Item, position int64) {
	i.T.Helper()
	got, item, ok, err := i.rush.places.Queued(i.T.Context(), user, no)
	if err != nil || ok != (it != nil) || ok && (item != it.ID || got != position) {
		i.T.Fatalf("%s: %d in the line of item %d, %t, %v; want %d of %+v", what, got, item, ok, err, position, it)
	}
}

// answers are this instance's answers about an item by code.
func (i *instance) answers(item int64) map[string]int64 {
	all := map[string]int64{}
	if c := i.rush.metrics.perItem.find(item); c != nil {
		for o := outQueued; o < outcomes; o++ {
			if n := c.sum(int(o)); n > 0 {
				all[o.String()] = n
			}
		}
	}
	return all
}

func (i *instance) state(it *catalogue.Item) inventory.State {
	i.T.Helper()
	st, ok, err := i.Stock.State(i.T.Context(), it.Stock())
	if err != nil || !ok {
		i.T.Fatalf("state of item %d: %v %v", it.ID, ok, err)
	}
	return st
}

func parse(t testing.TB, no string) ids.ID {
	t.Helper()
	id, err := ids.Parse(no)
	require.NoError(t, err)
	return id
}

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// faultyStream is the real bus except for the methods that a test overrides.
type faultyStream struct {
	grants
	healthy func() error
	publish func(send func() error) error
}

func (s *faultyStream) Healthy(ctx context.Context) error {
	if s.healthy != nil {
		return s.healthy()
	}
	return s.grants.Healthy(ctx)
}

func (s *faultyStream) Publish(ctx context.Context, b *seckillevent.Batch, data []byte) error {
	send := func() error { return s.grants.Publish(ctx, b, data) }
	if s.publish != nil {
		return s.publish(send)
	}
	return send()
}

// faultyStock is the real stock except for the methods that a test overrides.
type faultyStock struct {
	stock
	reserve func(n int, decide func() error) error
	onHold  func()
}

func (s *faultyStock) Hold(ctx context.Context, item inventory.Item, user int64) (no ids.ID, quantity int32, seq, persisted int64, ok bool, err error) {
	if s.onHold != nil {
		s.onHold()
	}
	return s.stock.Hold(ctx, item, user)
}

func (s *faultyStock) Reserve(ctx context.Context, item inventory.Item, epoch int64, as []inventory.Attempt, into *inventory.Decision) error {
	decide := func() error { return s.stock.Reserve(ctx, item, epoch, as, into) }
	if s.reserve != nil {
		return s.reserve(len(as), decide)
	}
	return decide()
}
