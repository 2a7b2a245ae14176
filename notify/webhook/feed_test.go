package webhook

import (
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestFeedGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{})
	get := func(query string) httpxtest.Answer {
		return b.ask(auth.Viewer, http.MethodGet, "/api/v1/events?"+query, nil)
	}
	none := get("").Want(t, "an empty log", 200, "", `"data":[]`)
	orders := make([]orderevent.Order, 7)
	for i := range orders {
		orders[i] = order(ids.New(), 1)
	}
	b.happens(orderevent.SubjectPaid, orders...)
	b.happens(orderevent.SubjectClosed, orders[:2]...)
	var types []string
	seen := map[string]bool{}
	for after := none.Text("next"); ; {
		page := get("limit=3&after="+after).Want(t, "a page", 200, "")
		data := page.Doc["data"].([]any)
		if after = page.Text("next"); len(data) == 0 {
			break
		}
		for _, e := range data {
			types, seen[e.(map[string]any)["id"].(string)] = append(types, e.(map[string]any)["type"].(string)), true
		}
	}
	require.Equal(t, "types", types, append(slices.Repeat([]string{"order.paid"}, 7), "order.closed", "order.closed"))
	require.Equal(t, "different events", len(seen), 9)
	require.Equal(t, "of one type", len(get("type=order.closed").Doc["data"].([]any)), 2)
	get("type=order.payed").Want(t, "an unknown type", 422, "invalid")
	get("after=garbage").Want(t, "garbage", 422, "invalid")
	get("after=9223372036854775807-2147483647").Want(t, "beyond the log, as after a restore", 410, "events-gone")

	// A reader who waits gets the next event, and an answer when the server stops.
	end := get("limit=500").Text("next")
	answered := make(chan httpxtest.Answer, 1)
	go func() { answered <- get("wait=30&after=" + end) }()
	b.happens(orderevent.SubjectPaid, orders[0])
	require.Equal(t, "events after a wait", len((<-answered).Doc["data"].([]any)), 1)
	end = get("limit=500").Text("next")
	last := b.news.since(t.Context(), b.db, place{3, 0})
	b.news.mu.Lock() // by a reader whose look hangs: the others do not wait for it
	require.Equal(t, "news", []bool{last, b.news.since(t.Context(), b.db, place{3, 0}), b.news.since(t.Context(), b.db, place{4, 0})}, []bool{true, true, false})
	b.news.mu.Unlock()
	go func() { answered <- get("wait=30&after=" + end) }()
	require.NoError(t, b.EndWaits(t.Context()))
	require.Equal(t, "status at a stop", (<-answered).Status, 200)

	pgtest.Exec(t, b.db, `UPDATE platform.outbox_dropped SET place = 1`)
	get("after=1-0").Want(t, "deleted events", 410, "events-gone")
	get("after=2-0").Want(t, "what is kept", 200, "")
	hook, _ := b.hook("https://shop.invalid/")
	pgtest.Exec(t, b.db, `UPDATE notify.webhooks SET place = 1`)
	_, err := b.round(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, "alarms about "+hook, b.alarms(alarmMissed), 1)

	// What waits for another try is behind the cursor.
	require.Equal(t, "events wait", b.state(hook)["waiting"].(float64) > 0, true)
	for _, statement := range []string{`DELETE FROM platform.outbox`, `UPDATE notify.webhooks SET next_try = NULL`, `DELETE FROM platform.alarms`} {
		pgtest.Exec(t, b.db, statement)
	}
	_, err = b.round(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, "alarms about what waited", b.alarms(alarmMissed), 1)
	require.Contains(t, "their detail", pgtest.Read[string](t, b.db, `SELECT detail FROM platform.alarms`), "waited")
}

// A key that is revoked while its holder waits for the next event gets none.
func TestAttackKeyThatEndsInMidWait(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{})
	var key atomic.Pointer[auth.Principal]
	admitted := make(chan struct{}, 100)
	b.router = httpx.Options{Keys: func(string) (auth.Principal, error) {
		defer func() { admitted <- struct{}{} }()
		if p := key.Load(); p != nil {
			return *p, nil
		}
		return auth.Principal{}, auth.ErrBadKey
	}}.NewRouter(b.tokens, slog.New(slog.DiscardHandler), "test", prometheus.NewRegistry())
	b.Routes(b.router)
	for what, c := range map[string]struct {
		then   *auth.Principal
		status int
		code   string
	}{"revoked": {nil, 401, "bad-key"}, "without its scope": {&auth.Principal{UserID: 5, Scopes: "orders:read"}, 403, "key-scope"}} {
		key.Store(&auth.Principal{UserID: 5, Scopes: "events:read"})
		answered := make(chan httpxtest.Answer, 1)
		go func() {
			answered <- httpxtest.Ask(t, b.router, "stpk_any", http.MethodGet, "/api/v1/events?wait=30&type=order.closed", nil)
		}()
		<-admitted
		<-admitted // it waits
		key.Store(c.then)
		b.happens(orderevent.SubjectClosed, order(ids.New(), 1))
		(<-answered).Want(t, what, c.status, c.code)
		pgtest.Exec(t, b.db, `DELETE FROM platform.outbox`)
		for len(admitted) > 0 {
			<-admitted
		}
	}
}

// Readers who wait by the hundred cost the database what one does.
func TestAttackReadersWhoWait(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{})
	b.happens(orderevent.SubjectPaid, order(ids.New(), 1))
	end := b.ask(auth.Viewer, http.MethodGet, "/api/v1/events", nil).Text("next")
	const readers, each = 100, 3 // queries of a request that does not wait
	before := b.db.Stat().AcquireCount()
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			b.ask(auth.Viewer, http.MethodGet, "/api/v1/events?wait=3&after="+end, nil).Want(t, "a wait", 200, "", end)
		})
	}
	all.Wait()
	if n := b.db.Stat().AcquireCount() - before; n > readers*each+50 {
		t.Errorf("%d queries of %d readers", n, readers)
	}
}

// A long log without an event of the type is read a bounded part at a time, and the cursor goes on.
func TestFeedOfARareTypeGoesOn(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{Private: true})
	pgtest.Exec(t, b.db, `INSERT INTO platform.outbox (id, subject, payload, created_at, sent_at)
		SELECT gen_random_uuid(), 'events.user.registered', '{}', now(), now() FROM generate_series(1, 600)`)
	b.happens(orderevent.SubjectClosed, order(ids.New(), 1))
	b.look = 0
	var answers int
	for after, found := "", 0; found == 0; answers++ {
		page := b.ask(auth.Viewer, http.MethodGet, "/api/v1/events?type=order.closed&after="+after, nil).Want(t, "a part of a long log", 200, "")
		require.Equal(t, "the cursor goes on", page.Text("next") != after, true)
		after, found = page.Text("next"), len(page.Doc["data"].([]any))
	}
	require.Equal(t, "answers", answers, 3)

	// So does a webhook's, and a courier that dies in between does not begin anew.
	r := receive(t, nil)
	_, secret := b.hook(r.URL, "order.closed")
	r.secret = secret
	pgtest.Exec(t, b.db, `UPDATE notify.webhooks SET place = 1`)
	for range 3 {
		_, err := b.round(t.Context(), 1)
		require.NoError(t, err)
	}
	require.Equal(t, "taken", len(r.await(t, 1)), 1)
}
