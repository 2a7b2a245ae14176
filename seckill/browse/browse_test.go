package browse

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"stampede/inventory"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/internal/wire"
)

// TestBrowseNeedsNoPostgres requests everything repeatedly, with caches just
// emptied, while the plan cannot be read.
func TestBrowseNeedsNoPostgres(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.publish(-time.Minute)
	w.load(s)
	require.NoError(t, w.svc.views.ensure(t.Context()))
	paths := []string{"/api/v1/sessions", "/api/v1/sessions/" + s.session, "/api/v1/items/" + s.item, "/api/v1/time"}
	w.plan.reads, w.plan.gone = 0, true
	for range 20 {
		for _, path := range paths {
			w.forget()
			w.ok(path)
		}
		w.forget()
		for _, path := range []string{"/api/v1/sessions/987654", "/api/v1/items/987654"} {
			w.gives(path, http.StatusNotFound)
		}
	}
	require.Equal(t, "reads of the plan", w.plan.reads, 0)
}

// TestTheSessionList lists nothing in an empty shop, nor what closed long ago.
func TestTheSessionList(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.gives("/api/v1/sessions", http.StatusOK, `{"data":[],"next_cursor":"","server_time":"`)
	open := w.publish(-time.Minute)
	w.clock.Advance(3 * time.Hour) // the open one closed two hours ago
	w.forget()
	if r := w.ok("/api/v1/sessions"); strings.Contains(string(r.Raw), `"id":"`+open.session+`"`) {
		t.Errorf("a session that closed long ago is listed: %s", r.Raw)
	}
	w.clock.Advance(-4 * time.Hour) // Redis's clock is set right
	w.ok("/api/v1/sessions")
	w.clock.Advance(-time.Hour)
	if r := w.ok("/api/v1/sessions"); !strings.Contains(string(r.Raw), `"id":"`+open.session+`"`) {
		t.Errorf("a list that was made in the future stays: %s", r.Raw)
	}
	w.gives("/api/v1/sessions?cursor=Zm9v", http.StatusUnprocessableEntity)
}

// TestRedisComesBackEmpty checks that the views are rebuilt, and that until
// then the request that misses a known session restores it.
func TestRedisComesBackEmpty(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.publish(time.Hour)
	w.ok("/api/v1/sessions")
	for _, path := range []string{"/api/v1/sessions/" + s.session, "/api/v1/items/" + s.item, "/api/v1/sessions"} {
		w.flush()
		if r := w.ok(path); !strings.Contains(string(r.Raw), `"activity_name":"Sale"`) && !strings.Contains(string(r.Raw), `"sku":"phone"`) {
			t.Errorf("%s: %s", path, r.Raw)
		}
	}
	w.flush()
	defer w.Run(w.svc.Run)()
	pgtest.Eventually(t, 30*time.Second, func() bool {
		_, whole, err := w.svc.views.headers(t.Context(), time.Now(), 10)
		return err == nil && whole
	}, "the views are rebuilt automatically")
}

// An upgrade rewrites the views of an earlier program, which lack what this one shows.
func TestViewsOfAnEarlierProgramAreRewritten(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.publish(time.Hour)
	w.Redis.ZAdd(t.Context(), viewIndexKey, redis.Z{Score: math.Inf(1), Member: "whole"})
	a := w.plan.activities[s.id]
	a.Sessions[0].Delivery = &Delivery{Freight: 800}
	require.NoError(t, w.svc.views.ensure(t.Context()))
	w.gives("/api/v1/items/"+s.item, http.StatusOK, `"freight":{"amount":800,"currency":"CNY"}`)
}

// TestAnOlderViewNeverReplacesANewer writes the views of two moments in the
// wrong order.
func TestAnOlderViewNeverReplacesANewer(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.publish(time.Hour)
	const second = "1000"
	old := w.plan.activities[s.id]
	w.edit(s, func(a *Activity) {
		a.Sessions[0].ActivityName = "Newer"
		later := a.Sessions[0]
		later.ID, later.Items, later.ItemCount = 1000, nil, 0
		a.Sessions = append(a.Sessions, later)
	})
	require.NoError(t, w.svc.views.write(t.Context(), &old))
	w.forget()
	require.Equal(t, "the name", w.ok("/api/v1/sessions/"+s.session).Text("activity_name"), "Newer")
	w.ok("/api/v1/sessions/" + second)
	w.edit(s, func(a *Activity) { a.Sessions = a.Sessions[:1] })
	newer := w.plan.activities[s.id]
	w.drop(s)
	require.NoError(t, w.svc.views.write(t.Context(), &newer))
	w.forget()
	for _, session := range []string{s.session, second} {
		w.gives("/api/v1/sessions/"+session, http.StatusNotFound)
	}
}

// TestItemStatus checks the status that shoppers see, on random figures.
func TestItemStatus(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Now()
		opens := now.Add(time.Duration(rapid.IntRange(-100, 100).Draw(t, "opens")) * time.Second)
		s := Session{OpensAt: wire.Time(opens), ClosesAt: wire.Time(opens.Add(50 * time.Second)), Paused: rapid.Bool().Draw(t, "paused"), Over: rapid.Bool().Draw(t, "over")}
		total := rapid.Int64Range(1, 10).Draw(t, "total")
		committed := rapid.Int64Range(0, total).Draw(t, "committed")
		remaining := rapid.Int64Range(0, total-committed).Draw(t, "remaining")
		st := inventory.State{Total: total, Committed: committed, Remaining: remaining}
		loaded := rapid.Bool().Draw(t, "loaded")
		v := shopItemOf(&s, &Item{OnSale: int32(total)}, st, loaded, now)
		live := !s.Over && !s.Paused && !now.Before(opens) && now.Before(time.Time(s.ClosesAt))
		switch v.Status {
		case shopOnSale:
			if !live || !loaded || remaining == 0 || v.Remaining == nil || *v.Remaining != remaining {
				t.Fatalf("on sale: %+v", v)
			}
		case shopSoldOut: // final: no held unit can come back
			if !live || !loaded || committed != total {
				t.Fatalf("sold out with %d of %d paid for", committed, total)
			}
		case shopAllHeld:
			if !live || !loaded || remaining != 0 || committed == total {
				t.Fatalf("all held: %+v", v)
			}
		case shopPreparing:
			if !live || loaded || v.Remaining != nil {
				t.Fatalf("preparing: %+v", v)
			}
		case shopPaused, shopUpcoming, shopEnded:
			if live {
				t.Fatalf("%s while it is on sale", v.Status)
			}
		default:
			t.Fatalf("status %q", v.Status)
		}
	})
}

// TestNothingIsCountedOfAnUnlimitedItem checks that its counts are null: 0
// would mean that none is left.
func TestNothingIsCountedOfAnUnlimitedItem(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.publish(-time.Minute, func(a *Activity) {
		item := &a.Sessions[0].Items[0]
		item.Unlimited, item.OnSale = true, 0
	})
	figures := func(want string) {
		t.Helper()
		w.forget()
		r := w.get("/api/v1/items/" + s.item)
		for _, field := range []string{"total", "remaining"} {
			if v, ok := r.Doc[field]; !ok || v != nil {
				t.Errorf("%s is %v: %s", field, v, r.Raw)
			}
		}
		if r.Doc["unlimited"] != true || r.Text("status") != want {
			t.Errorf("want %s: %s", want, r.Raw)
		}
	}
	figures(shopPreparing)
	w.load(s)
	figures(shopOnSale)
}

// A Redis that took over shows a sale before its last edit and a deleted sale,
// and lacks one that was published since.
func TestViewsOfARedisThatTookOverAreRenewed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const mark = viewTakeovers + "run"
	// Run the process until it has handled the takeover.
	live := func() {
		t.Helper()
		defer w.Run(w.svc.Run)()
		pgtest.Eventually(t, 3*viewsEvery, func() bool {
			text, err := w.Redis.Info(t.Context(), "server").Result()
			run, _ := w.Redis.Get(t.Context(), mark).Result()
			return err == nil && run != "" && strings.Contains(text, "run_id:"+run)
		}, "the run id to be recorded")
	}
	live()
	edited, deleted := w.publish(time.Hour), w.publish(time.Hour)
	views := make(map[string]string)
	for _, key := range w.Redis.Keys(t.Context(), "sv*").Val() {
		views[key] = w.Redis.Dump(t.Context(), key).Val()
	}
	w.edit(edited, func(a *Activity) { a.Sessions[0].Items[0].Title = "A better phone" })
	w.drop(deleted)
	late := w.publish(time.Hour)

	for _, key := range w.Redis.Keys(t.Context(), "sv*").Val() {
		w.Redis.Del(t.Context(), key)
	}
	for key, dump := range views {
		// In a cluster, the record by which a deletion finds its views is on
		// another node.
		if key == viewOfActivityPrefix+deleted.activity {
			continue
		}
		require.NoError(t, w.Redis.Restore(t.Context(), key, 0, dump).Err())
	}
	shows := func(s sale) string {
		w.forget()
		r := w.get("/api/v1/items/" + s.item)
		if r.Status != http.StatusOK {
			return http.StatusText(r.Status)
		}
		return r.Text("title")
	}
	require.Equal(t, "the old view", shows(edited), "A phone")
	require.NoError(t, w.Redis.Set(t.Context(), mark, "the run of its predecessor", 0).Err())
	live()
	for _, c := range []struct {
		what string
		sale sale
		want string
	}{{"edited", edited, "A better phone"}, {"deleted", deleted, "Not Found"}, {"published late", late, "A phone"}} {
		require.Equal(t, "what the sale shows that was "+c.what, shows(c.sale), c.want)
	}
	w.forget()
	require.Equal(t, "sessions in the list", len(w.ok("/api/v1/sessions").Doc["data"].([]any)), 2)
}

// A client that is ten minutes off computes the server's time from the four
// timestamps, also at an instance that is off by as much in the other direction.
func TestTheOffsetProtocol(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.svc.deps.Clock = w.OffBy(-10 * time.Minute)
	for name, wrong := range seckilltest.WrongClocks {
		client := func() time.Time { return time.Now().Add(wrong) }
		best, offset := time.Hour, time.Duration(0)
		for range 5 {
			t0 := client()
			r := w.ok(fmt.Sprintf("/api/v1/time?client_send=%d", t0.UnixMilli()))
			t3 := client()
			if r.Doc["client_send"] != float64(t0.UnixMilli()) || r.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %s with %v", name, r.Raw, r.Header)
			}
			t1, t2 := time.UnixMilli(int64(r.Doc["server_receive"].(float64))), time.UnixMilli(int64(r.Doc["server_send"].(float64)))
			if t2.Before(t1) {
				t.Errorf("%s: sent at %s, before it was received at %s", name, t2, t1)
			}
			if trip := t3.Sub(t0) - t2.Sub(t1); trip < best {
				best, offset = trip, (t1.Sub(t0)+t2.Sub(t3))/2
			}
		}
		// The timestamps are whole milliseconds; the rest is half of the best trip and the instance's own
		// error.
		if off := client().Add(offset).Sub(w.RedisTime()).Abs(); off > best/2+50*time.Millisecond {
			t.Errorf("%s: the client's estimate is %s off", name, off)
		}
	}
	w.gives("/api/v1/time?client_send=noon", http.StatusUnprocessableEntity)
}
