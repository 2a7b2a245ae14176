package rush

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/inventory"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/redistest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
)

// change makes an operator's change to an item in Postgres and Redis.
func (y *bundle) change(it *catalogue.Item, c inventory.Change) {
	y.T.Helper()
	err := pg.InTx(y.T.Context(), y.DB, func(tx pgx.Tx) error { return y.Stock.Change(y.T.Context(), tx, it.ID, c) })
	if err == nil {
		err = y.Stock.Apply(y.T.Context(), it.ID)
	}
	require.NoError(y.T, err)
}

// A full Redis says that it decides nothing: the attempt was not taken, and the path is
// good as soon as there is memory.
func TestFullRedisIsNoUnknownOutcome(t *testing.T) {
	t.Parallel()
	y := setup(t)
	y.Redis = redistest.Start(t).Client
	y.Stock = y.NewStock()
	it := y.Item(1)
	i := y.instance([]*catalogue.Item{it})
	p := i.issue(1, it, 1)
	memory := func(limit string) {
		require.NoError(t, y.Redis.ConfigSet(t.Context(), "maxmemory", limit).Err())
	}
	memory("1")
	i.send(p.Path).want(t, "while Redis is full", http.StatusServiceUnavailable, "unavailable", "2")
	memory("0")
	i.send(p.Path).want(t, "when it has memory", http.StatusAccepted, "")
}

// Every refusal: its status, its code, its Retry-After, and that the stock is
// unchanged. How a sale refuses all attempts is in TestRepeatedPathIsAnsweredWhileTheSaleRefuses.
func TestRefusals(t *testing.T) {
	t.Parallel()
	y := setup(t)
	broken := errors.New("broken on purpose")
	soon := func(it *catalogue.Item) { it.OpensAt = it.OpensAt.Add(2 * time.Minute) } // in a minute
	pair := func(it *catalogue.Item) { it.UserLimit = 2 }
	send := func(i *instance, it *catalogue.Item) answer { return i.send(i.issue(1, it, 1).Path) }

	for name, c := range map[string]struct {
		item   func(*catalogue.Item)
		rush   func(i *instance, it *catalogue.Item) answer
		status int
		code   string
		retry  int // seconds; long ones may already have started to count down
	}{
		"made up": {status: 403, code: "bad-path", rush: func(i *instance, _ *catalogue.Item) answer { return i.send("made-up") }},
		"forged": {status: 403, code: "bad-path", rush: func(i *instance, it *catalogue.Item) answer {
			p := i.issue(1, it, 1).Path
			return i.send(p[:30] + strings.Map(func(r rune) rune { return r ^ 1 }, p[30:31]) + p[31:])
		}},
		"with a body": {status: 413, code: "too-large", rush: func(i *instance, it *catalogue.Item) answer {
			return i.do(httptest.NewRequest(http.MethodPost, i.issue(1, it, 1).RushURL, strings.NewReader(strings.Repeat("x", maxBodyBytes+1))))
		}},
		"expired": {status: 403, code: "path-expired", rush: func(i *instance, it *catalogue.Item) answer {
			p := i.issue(1, it, 1)
			i.clock.Advance(PathLifetime + 2*time.Second)
			return i.send(p.Path)
		}},
		"before the path": {item: soon, status: 425, code: "not-started", retry: 60, rush: send},
		"before the window": {status: 425, code: "not-started", retry: 30, rush: func(i *instance, it *catalogue.Item) answer {
			p := i.issue(1, it, 1)
			later := *it
			later.OpensAt = time.Now().Add(30 * time.Second)
			i.listing.Show(&later)
			return i.send(p.Path)
		}},
		"before the opening by Redis": {item: soon, status: 425, code: "not-started", retry: 60, rush: func(i *instance, it *catalogue.Item) answer {
			i.clock.Advance(time.Minute + time.Second)
			return send(i, it)
		}},
		"after the window": {item: func(it *catalogue.Item) { it.ClosesAt = time.Now().Add(30 * time.Second) }, status: 410, code: "ended", rush: func(i *instance, it *catalogue.Item) answer {
			p := i.issue(1, it, 1)
			i.clock.Advance(32 * time.Second)
			return i.send(p.Path)
		}},
		"over the limit by Redis": {item: pair, status: 422, code: "over-limit", rush: func(i *instance, it *catalogue.Item) answer {
			p := i.issue(1, it, 2)
			one := int32(1)
			i.change(it, inventory.Change{UserLimit: &one})
			return i.send(p.Path)
		}},
		"more than is left": {item: func(it *catalogue.Item) { pair(it); it.Total = 1 }, status: 409, code: "not-enough", retry: 5, rush: func(i *instance, it *catalogue.Item) answer {
			return i.send(i.issue(1, it, 2).Path)
		}},
		"Redis failing": {status: 503, code: "unknown", retry: 1, rush: func(i *instance, it *catalogue.Item) answer {
			i.rush.lanes.stock = &faultyStock{stock: i.rush.lanes.stock, reserve: func(int, func() error) error { return broken }}
			return send(i, it)
		}},
		"draining": {status: 503, code: "draining", retry: 1, rush: func(i *instance, it *catalogue.Item) answer {
			i.rush.lanes.drain()
			return send(i, it)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := &bundle{y.In(t)}
			it := y.Item(5, func(it *catalogue.Item) {
				if c.item != nil {
					c.item(it)
				}
			})
			i := y.instance([]*catalogue.Item{it})
			a := c.rush(i, it)
			retry, _ := strconv.Atoi(a.RetryAfter) // 0 without one
			if a.Status != c.status || a.Code != c.code || retry > c.retry || retry < c.retry-c.retry/3 {
				t.Fatalf("got %d %s, Retry-After %q", a.Status, a.Code, a.RetryAfter)
			}
			st := i.state(it)
			require.Equal(t, "grants and units left", [2]int64{st.Seq, st.Remaining}, [2]int64{0, int64(it.Total)})
		})
	}
}
