package deadletters_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/bus"
	"stampede/platform/store/inbox"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
	"stampede/platform/watch/deadletters"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

const letters = "/api/v1/admin/dead-letters"

// bundle is the operators' side of the dead letters.
type bundle struct {
	t      *testing.T
	router *httpx.Router
	tokens *auth.Tokens
}

func setup(t *testing.T, pool *pgxpool.Pool, b *bus.Bus) *bundle {
	t.Helper()
	o := &bundle{t: t, tokens: auth.NewTokens([]byte(strings.Repeat("key!", 8)), time.Now)}
	o.router = httpx.NewRouter(o.tokens, slog.New(slog.DiscardHandler), "test", prometheus.NewRegistry())
	deadletters.Routes(o.router, pool, b)
	return o
}

func (o *bundle) call(role auth.Role, method, path, body string) (int, map[string]any) {
	o.t.Helper()
	return httpxtest.As(o.t, o.router, o.tokens, role, method, path, body)
}

func (o *bundle) rows(query string) []map[string]any {
	o.t.Helper()
	status, doc := o.call(auth.Viewer, http.MethodGet, letters+query, "")
	data, ok := doc["data"].([]any)
	require.Equal(o.t, fmt.Sprintf("status and list of %v", doc), fmt.Sprint(status, ok), "200 true")
	rows := make([]map[string]any, len(data))
	for i, d := range data {
		rows[i] = d.(map[string]any)
	}
	return rows
}

func dead(t testing.TB, pool *pgxpool.Pool, consumer, subject, payload, why string) {
	t.Helper()
	require.NoError(t, deadletters.Keep(t.Context(), pool, consumer, bus.Msg{ID: ids.New(), Subject: subject, Data: []byte(payload), Attempt: 8}, errors.New(why)))
}

// Every answer of the four routes.
func TestDeadLetterRoutes(t *testing.T) {
	t.Parallel()
	pool, b := pgtest.DB(t), bustest.Open(t)
	o := setup(t, pool, b)
	long := strings.Repeat("缺货 ", 100)
	dead(t, pool, "push", "events.order.paid", `{"orders":[]}`, long)
	dead(t, pool, "order-writer", "grants.7", "\xff\x00\x01", "unreadable")
	rows := o.rows("")
	if len(rows) != 2 || rows[0]["consumer"] != "order-writer" || rows[0]["bytes"] != 3.0 || rows[1]["error"] == long || rows[1]["payload"] != nil {
		t.Fatalf("list %v", rows)
	}
	grants, event := letters+"/"+rows[0]["id"].(string), letters+"/"+rows[1]["id"].(string)
	_, page := o.call(auth.Viewer, http.MethodGet, letters+"?limit=1", "")
	if next := o.rows("?limit=1&cursor=" + page["next_cursor"].(string)); len(next) != 1 || next[0]["consumer"] != "push" {
		t.Errorf("second page %v", next)
	}
	if only := o.rows("?consumer=push"); len(only) != 1 || only[0]["consumer"] != "push" {
		t.Errorf("filtered %v", only)
	}
	_, doc := o.call(auth.Viewer, http.MethodGet, event, "")
	require.Equal(t, "event", []any{doc["payload"], doc["error"], doc["attempts"]}, []any{`{"orders":[]}`, long, 8.0})
	_, doc = o.call(auth.Viewer, http.MethodGet, grants, "")
	require.Equal(t, "grants", []any{doc["payload_binary"], doc["payload"]}, []any{"/wAB", nil})
	for _, c := range []struct {
		name               string
		role               auth.Role
		method, path, body string
		status             int
		code               string
	}{
		{"a shopper", auth.Shopper, http.MethodGet, letters, "", 403, "forbidden"},
		{"bad cursor", auth.Viewer, http.MethodGet, letters + "?cursor=x", "", 422, "invalid"},
		{"no such letter", auth.Viewer, http.MethodGet, letters + "/" + ids.New().String(), "", 404, "not-found"},
		{"no id", auth.Viewer, http.MethodGet, letters + "/x", "", 404, "not-found"},
		{"a viewer redrives", auth.Viewer, http.MethodPost, event + "/redrive", "", 403, "forbidden"},
		{"a viewer redrives all", auth.Viewer, http.MethodPost, letters + "/redrive", `{"consumer":"push"}`, 403, "forbidden"},
		{"all without a consumer", auth.Operator, http.MethodPost, letters + "/redrive", `{"consumer":""}`, 422, "invalid"},
		{"unknown", auth.Operator, http.MethodPost, letters + "/" + ids.New().String() + "/redrive", "", 404, "not-found"},
		{"redriven", auth.Operator, http.MethodPost, event + "/redrive", "", 200, ""},
		{"redriven twice", auth.Operator, http.MethodPost, event + "/redrive", "", 404, "not-found"},
		{"grants", auth.Operator, http.MethodPost, grants + "/redrive", "", 200, ""},
		{"grants twice", auth.Operator, http.MethodPost, grants + "/redrive", "", 404, "not-found"},
		{"all of a consumer without letters", auth.Operator, http.MethodPost, letters + "/redrive", `{"consumer":"push"}`, 200, ""},
	} {
		status, doc := o.call(c.role, c.method, c.path, c.body)
		code, _ := doc["code"].(string)
		require.Equal(t, c.name, []any{status, code}, []any{c.status, c.code})
	}
	require.Equal(t, "left", o.rows(""), []map[string]any{})
	queue, err := b.Queue(bustest.Grants().Name).State(t.Context())
	require.Equal(t, "messages on GRANTS", fmt.Sprint(queue.Messages, err), "1 <nil>")
	actions, err := audit.List(t.Context(), pool, audit.Filter{})
	if err != nil || len(actions) != 2 || actions[0].Actor != 7 || actions[0].Action != "dead-letter.redrive" || !strings.Contains(string(actions[0].Detail), "order-writer") {
		t.Errorf("audited %+v, %v", actions, err)
	}
}

// A consumer whose store was down gives up on many messages; operators redrive all
// of them, twice and from two desks concurrently, and each has its effect once.
func TestRedriveAllHasEachEffectOnce(t *testing.T) {
	t.Parallel()
	pool, b := pgtest.DB(t), bustest.Open(t)
	o := setup(t, pool, b)
	var repaired atomic.Bool
	pgtest.Exec(t, pool, `CREATE TABLE public.effects (id uuid)`)
	stop, err := b.Subscribe(t.Context(), []bus.Subscription{{Name: "effect", Filter: "events.test.>", MaxAttempts: 1, Handle: func(ctx context.Context, m bus.Msg) error {
		if !repaired.Load() {
			return errors.New("broken")
		}
		return pg.InTx(ctx, pool, func(tx pgx.Tx) error {
			fresh, err := inbox.Fresh(ctx, tx, "effect", []ids.ID{m.ID})
			if err != nil || !fresh[m.ID] {
				return err
			}
			_, err = tx.Exec(ctx, `INSERT INTO public.effects VALUES ($1)`, m.ID)
			return err
		})
	}}}, deadletters.Keeper(pool))
	require.NoError(t, err)
	defer stop(context.Background())
	defer relay(t, pool, b)()

	const messages = 120 // more than one request takes
	for range messages {
		require.NoError(t, b.Publish(t.Context(), "events.test.x", ids.New(), []byte("x")))
	}
	count := func(sql string) int {
		t.Helper()
		return pgtest.Read[int](t, pool, sql)
	}
	pgtest.Eventually(t, 30*time.Second, func() bool { return count(`SELECT count(*) FROM platform.dead_letters`) == messages }, "all are given up")
	repaired.Store(true)
	if status, doc := o.call(auth.Operator, http.MethodPost, letters+"/redrive", `{"consumer":"effect"}`); status != http.StatusOK ||
		doc["redriven"] != 100.0 || doc["left"] != 20.0 {
		t.Errorf("redrive: %d %v", status, doc)
	}
	// Both requests have read the same letters before the first letter can be
	// removed.
	release := pgtest.Locked(t, pool, `SELECT FROM platform.dead_letters ORDER BY id LIMIT 1 FOR UPDATE`)
	var desks sync.WaitGroup
	var redriven atomic.Int64
	for range 2 {
		desks.Go(func() {
			_, doc := o.call(auth.Operator, http.MethodPost, letters+"/redrive", `{"consumer":"effect"}`)
			n, _ := doc["redriven"].(float64)
			redriven.Add(int64(n))
		})
	}
	pgtest.Eventually(t, 30*time.Second, func() bool {
		return count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%DELETE FROM platform.dead_letters%'`) == 2
	}, "both desks want the first letter")
	release()
	desks.Wait()
	require.Equal(t, "redriven by two desks", redriven.Load(), 20)
	pgtest.Eventually(t, 30*time.Second, func() bool { return count(`SELECT count(DISTINCT id) FROM public.effects`) == messages }, "every effect happens")
	require.Equal(t, "effects", count(`SELECT count(*) FROM public.effects`), messages)
	require.Equal(t, "audited", count(`SELECT count(*) FROM platform.audit WHERE action = 'dead-letter.redrive' AND actor = 7`), messages)
}
