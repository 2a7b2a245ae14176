package seckill

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/inventory"
	"stampede/platform/auth"
	"stampede/platform/fault"
	"stampede/platform/httpx"
	"stampede/platform/ids"
	"stampede/platform/pg"
)

// faultyStream fails where it is told to and is the real bus elsewhere.
type faultyStream struct {
	grantStream
	healthy func() error
	publish func(send func() error) error
}

func (s *faultyStream) Healthy(ctx context.Context) error {
	if s.healthy != nil {
		return s.healthy()
	}
	return s.grantStream.Healthy(ctx)
}

func (s *faultyStream) Publish(ctx context.Context, subject string, id ids.ID, data []byte) error {
	send := func() error { return s.grantStream.Publish(ctx, subject, id, data) }
	if s.publish != nil {
		return s.publish(send)
	}
	return send()
}

// faultyStock decides as told and is the real stock elsewhere.
type faultyStock struct {
	stock
	reserve func(n int, decide func() error) error
}

func (s *faultyStock) Reserve(ctx context.Context, item inventory.Item, epoch int64, as []inventory.Attempt, into *inventory.Decision) error {
	decide := func() error { return s.stock.Reserve(ctx, item, epoch, as, into) }
	if s.reserve != nil {
		return s.reserve(len(as), decide)
	}
	return decide()
}

// change makes an operator's change to an item in Postgres and Redis.
func (y *yard) change(it *Item, c inventory.Change) {
	y.t.Helper()
	err := pg.InTx(y.t.Context(), y.db, func(tx pgx.Tx) error { return y.stock.Change(y.t.Context(), tx, it.ID, c) })
	if err == nil {
		err = y.stock.Apply(y.t.Context(), it.ID)
	}
	if err != nil {
		y.t.Fatal(err)
	}
}

// Every refusal: its status, its code, when to come back, and that nothing was
// taken from the stock.
func TestRefusals(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	broken := errors.New("broken on purpose")
	soon := func(it *Item) { it.OpensAt = it.OpensAt.Add(2 * time.Minute) } // in a minute
	pair := func(it *Item) { it.UserLimit = 2 }
	send := func(i *instance, it *Item) answer { return i.send(i.issue(1, it, 1).Path) }

	for name, c := range map[string]struct {
		item   func(*Item)
		rush   func(i *instance, it *Item) answer
		status int
		code   string
		retry  int // seconds; the long ones may have begun to run
	}{
		"made up": {status: 403, code: "bad-path", rush: func(i *instance, _ *Item) answer { return i.send("made-up") }},
		"forged": {status: 403, code: "bad-path", rush: func(i *instance, it *Item) answer {
			p := i.issue(1, it, 1).Path
			return i.send(p[:30] + strings.Map(func(r rune) rune { return r ^ 1 }, p[30:31]) + p[31:])
		}},
		"with a body": {status: 413, code: "too-large", rush: func(i *instance, it *Item) answer {
			return i.do(httptest.NewRequest(http.MethodPost, i.issue(1, it, 1).RushURL, strings.NewReader(strings.Repeat("x", maxRushBodyBytes+1))))
		}},
		"expired": {status: 403, code: "path-expired", rush: func(i *instance, it *Item) answer {
			p := i.issue(1, it, 1)
			i.clock.advance(i.rush.cfg.PathLifetime + 2*time.Second)
			return i.send(p.Path)
		}},
		"before the path": {item: soon, status: 425, code: "not-started", retry: 60, rush: send},
		"before the window": {status: 425, code: "not-started", retry: 30, rush: func(i *instance, it *Item) answer {
			p := i.issue(1, it, 1)
			later := *it
			later.OpensAt = time.Now().Add(30 * time.Second)
			i.show(&later)
			return i.send(p.Path)
		}},
		"before the opening by Redis": {item: soon, status: 425, code: "not-started", retry: 60, rush: func(i *instance, it *Item) answer {
			i.clock.advance(time.Minute + time.Second)
			return send(i, it)
		}},
		"after the window": {item: func(it *Item) { it.ClosesAt = time.Now().Add(30 * time.Second) }, status: 410, code: "ended", rush: func(i *instance, it *Item) answer {
			p := i.issue(1, it, 1)
			i.clock.advance(32 * time.Second)
			return i.send(p.Path)
		}},
		"after the end by Redis": {status: 410, code: "ended", rush: func(i *instance, it *Item) answer {
			p := i.issue(1, it, 1)
			over := time.Now().Add(-time.Second)
			i.change(it, inventory.Change{ClosesAt: &over})
			return i.send(p.Path)
		}},
		"terminated": {status: 410, code: "ended", rush: func(i *instance, it *Item) answer {
			p := i.issue(1, it, 1)
			gone := *it
			gone.OnSale = false
			i.show(&gone)
			return i.send(p.Path)
		}},
		"gone": {status: 410, code: "ended", rush: func(i *instance, it *Item) answer {
			p := i.issue(1, it, 1)
			i.show()
			return i.send(p.Path)
		}},
		"paused": {status: 503, code: "paused", retry: 2, rush: func(i *instance, it *Item) answer {
			yes := true
			i.change(it, inventory.Change{Paused: &yes})
			return send(i, it)
		}},
		"over the limit by Redis": {item: pair, status: 422, code: "over-limit", rush: func(i *instance, it *Item) answer {
			p := i.issue(1, it, 2)
			one := int32(1)
			i.change(it, inventory.Change{UserLimit: &one})
			return i.send(p.Path)
		}},
		"more than is left": {item: func(it *Item) { pair(it); it.Total = 1 }, status: 409, code: "not-enough", rush: func(i *instance, it *Item) answer {
			return i.send(i.issue(1, it, 2).Path)
		}},
		"unhealthy stream": {status: 503, code: "unavailable", retry: 2, rush: func(i *instance, it *Item) answer {
			i.rush.lanes.bus = &faultyStream{grantStream: i.bus, healthy: func() error { return broken }}
			return send(i, it)
		}},
		"Redis failing": {status: 503, code: "unknown", retry: 1, rush: func(i *instance, it *Item) answer {
			i.rush.lanes.stock = &faultyStock{stock: i.rush.stock, reserve: func(int, func() error) error { return broken }}
			return send(i, it)
		}},
		"draining": {status: 503, code: "draining", retry: 1, rush: func(i *instance, it *Item) answer {
			i.rush.lanes.drain()
			return send(i, it)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := &yard{t: t, db: y.db, rdb: y.rdb, bus: y.bus, stock: y.stock, orders: y.orders, ids: y.ids}
			it := y.item(5, func(it *Item) {
				if c.item != nil {
					c.item(it)
				}
			})
			i := y.instance([]*Item{it})
			a := c.rush(i, it)
			retry, _ := strconv.Atoi(a.RetryAfter) // 0 without one
			if a.Status != c.status || a.Code != c.code || retry > c.retry || retry < c.retry-c.retry/3 {
				t.Fatalf("got %d %s, Retry-After %q", a.Status, a.Code, a.RetryAfter)
			}
			if st := i.state(it); st.Seq != 0 || st.Remaining != int64(it.Total) {
				t.Fatalf("something was taken: %+v", st)
			}
		})
	}
}

func TestSoldOutWhenAllIsPaid(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	it := y.item(1)
	i := y.instance([]*Item{it})
	p, a := i.buy(1, it)
	if a.Status != http.StatusAccepted {
		t.Fatalf("%+v", a)
	}
	y.settleAll(1)
	y.pay(parse(t, p.OrderNo))
	for range 2 { // by Redis, then by the flag
		req := httptest.NewRequest(http.MethodPost, i.issue(2, it, 1).RushURL, nil)
		req.Header.Set("Accept-Language", "zh-CN,zh;q=0.9")
		if a := i.do(req); a.Status != http.StatusGone || a.Code != "sold-out" || a.Title != "已售罄" {
			t.Fatalf("%+v", a)
		}
		mustBeUp(t, i, it, outSoldOut)
	}
}

// A fenced item asks to be loaded, and sells again once it is.
func TestFencedItemIsHealed(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	it := y.item(5)
	i := y.instance([]*Item{it})
	held, a := i.buy(1, it)
	if a.Status != http.StatusAccepted {
		t.Fatalf("%+v", a)
	}
	y.settleAll(1)
	if err := y.rdb.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	p := i.issue(2, it, 1)
	if a := i.send(p.Path); a.Status != http.StatusServiceUnavailable || a.Code != "fenced" || a.RetryAfter != "1" {
		t.Fatalf("without its keys: %+v", a)
	}
	select {
	case id := <-i.svc.Catalogue.heal:
		if err := y.stock.Load(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second): // the lane asks just after it has answered
		t.Fatal("nobody was asked to load the item")
	}
	if a := i.send(p.Path); a.Status != http.StatusAccepted {
		t.Fatalf("after the Load: %+v", a)
	}
	if a := i.send(held.Path); a.Status != http.StatusAccepted || a.OrderNo != held.OrderNo {
		t.Fatalf("who had bought before: %+v", a)
	}
	if st := i.state(it); st.Remaining != 3 {
		t.Fatalf("%d left, want 3", st.Remaining)
	}
}

func TestIssue(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	open := y.item(5, func(it *Item) { it.UserLimit = 3 })
	soon := y.item(5, func(it *Item) { it.OpensAt = it.OpensAt.Add(2 * time.Minute) })
	later := y.item(5, func(it *Item) { it.OpensAt = it.OpensAt.Add(4 * time.Minute) })
	over := *open
	over.ID, over.OnSale = 1000, false
	i := y.instance([]*Item{open, soon, later, &over})

	p := i.issue(7, open, 3)
	var tok token
	if err := i.rush.keys.verify(p.Path, &tok); err != nil || tok.user != 7 || tok.quantity != 3 || tok.no.String() != p.OrderNo {
		t.Fatalf("%+v says %+v (%v)", p, tok, err)
	}
	if tok.no.Bucket() != ids.Bucket(7) || p.RushURL != "/api/v1/rush/"+p.Path {
		t.Fatalf("%+v", p)
	}
	life := i.rush.cfg.PathLifetime
	expires, err := time.Parse(timeFormat, p.ExpiresAt)
	if left := time.Until(expires); err != nil || left > life || left < life-5*time.Second {
		t.Fatalf("open item: expires in %v (%v)", left, err)
	}
	p = i.issue(7, soon, 1)
	if p.UsableFrom != soon.OpensAt.UTC().Format(timeFormat) || p.ExpiresAt != soon.OpensAt.Add(life).UTC().Format(timeFormat) {
		t.Fatalf("an early path counts from the opening: %+v", p)
	}
	for name, c := range map[string]struct {
		item     int64
		quantity int32
		kind     fault.Kind
		code     string
	}{
		"unknown":    {999, 1, fault.NotFound, "not-found"},
		"ended":      {over.ID, 1, fault.Gone, "ended"},
		"too early":  {later.ID, 1, fault.TooEarly, "not-started"},
		"over limit": {open.ID, 4, fault.Invalid, "over-limit"},
	} {
		_, err := i.tryIssue(7, c.item, c.quantity)
		if f := fault.From(err); err == nil || f.Kind != c.kind || f.Code != c.code {
			t.Errorf("%s: %v", name, err)
		} else if c.kind == fault.TooEarly && (f.RetryAfter < 50*time.Second || f.RetryAfter > time.Minute) {
			t.Errorf("%s: come back after %v", name, f.RetryAfter)
		}
	}
}

// The route itself: who may, what it defaults to, and what it answers.
func TestIssueOverHTTP(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	it := y.item(5)
	i := y.instance([]*Item{it})
	bearer, err := auth.NewTokens(testKey, time.Now).Mint(auth.Principal{UserID: 7, Role: auth.Shopper}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	post := func(body, token string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(http.MethodPost, "/api/v1/items/1/rush-path", strings.NewReader(body))
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		rec := httptest.NewRecorder()
		i.rt.ServeHTTP(rec, req)
		return rec
	}
	for body, want := range map[string]int{
		"": 200, "{}": 200, `{"quantity":1}`: 200, `{"quantity":2}`: 422, `{"quantity":0}`: 422, `{"quantity":-1}`: 422, `{"quantity":"1"}`: 422, `{`: 400,
	} {
		if rec := post(body, bearer); rec.Code != want {
			t.Errorf("%q: %d %s, want %d", body, rec.Code, rec.Body, want)
		}
	}
	if rec := post("", ""); rec.Code != http.StatusUnauthorized {
		t.Errorf("without a token: %d", rec.Code)
	}
	doc := i.rt.API.Huma.OpenAPI()
	if op := doc.Paths["/api/v1/rush/{path}"]; op == nil || op.Post.Responses["202"] == nil || !strings.Contains(op.Post.Responses["503"].Description, "unknown") {
		t.Error("the rush is not documented")
	}
}

// Every refusal that is rendered ahead has a title in both languages.
func TestRefusalsHaveTitles(t *testing.T) {
	t.Parallel()
	for o := outQueued; o < outcomes; o++ {
		f := refusals[o]
		if f == nil {
			continue
		}
		for _, lang := range []httpx.Language{httpx.English, httpx.Chinese} {
			if httpx.Title(f.Code, lang) == f.Code {
				t.Errorf("%s has no title in language %d", f.Code, lang)
			}
		}
	}
}
