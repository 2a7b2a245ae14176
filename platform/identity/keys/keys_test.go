package keys_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/clock"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/idempotency"
	"stampede/platform/identity/keys"
	"stampede/platform/store/bus"
	"stampede/platform/watch/audit"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// instance is one of the shop's: a router with two operators' routes and a shopper's.
type instance struct {
	t      *testing.T
	keys   *keys.Service
	router *httpx.Router
	tokens *auth.Tokens
}

func start(t *testing.T, db *pgxpool.Pool, b *bus.Bus, now clock.Clock) *instance {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	i := &instance{t: t, tokens: auth.NewTokens([]byte(strings.Repeat("k1", 16)), time.Now)}
	i.keys = keys.New(keys.Deps{DB: db, Bus: b, Clock: now, Log: log, Metrics: prometheus.NewRegistry()})
	require.NoError(t, i.keys.Refresh(t.Context()))
	for _, w := range i.keys.Workers() {
		pgtest.Work(t, w.Run)
	}
	i.router = httpx.Options{Keys: i.keys.Admit, Refused: audit.NewRefusals(db, log).Record}.NewRouter(i.tokens, log, "test", prometheus.NewRegistry())
	i.keys.Routes(i.router)
	type none struct{}
	who := func(ctx context.Context, _ *none) (*httpx.Output[string], error) {
		return httpx.Answer(fmt.Sprint(auth.From(ctx).UserID, " ", auth.From(ctx).Role)), nil
	}
	type keyed struct{ idempotency.Header }
	httpx.Register(i.router.API, httpx.Op{Method: http.MethodGet, Path: "/api/v1/admin/orders", ID: "admin-list-orders", Tag: "operator", Role: auth.Viewer, Scope: auth.OrdersRead, Summary: "Orders"}, who)
	httpx.Register(i.router.API, httpx.Op{Method: http.MethodPost, Path: "/api/v1/admin/orders", ID: "act", Tag: "operator", Role: auth.Operator, Scope: auth.OrdersWrite, Summary: "Act", Audit: "x"},
		func(ctx context.Context, _ *keyed) (*httpx.Output[string], error) { return who(ctx, nil) })
	httpx.Register(i.router.API, httpx.Op{Method: http.MethodGet, Path: "/api/v1/admin/users", ID: "list-users", Tag: "operator", Role: auth.Viewer, Summary: "Users"}, who)
	httpx.Register(i.router.API, httpx.Op{Method: http.MethodGet, Path: "/api/v1/orders", ID: "list-orders", Tag: "shopper", Role: auth.Shopper, Summary: "Own orders"}, who)
	i.router.Handle(httpx.Held, http.MethodGet, "/api/v1/ws", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, `{"user":`, auth.From(r.Context()).UserID, `}`)
	})
	return i
}

func (i *instance) admin(method, path string, body any) httpxtest.Answer {
	i.t.Helper()
	return httpxtest.Ask(i.t, i.router, httpxtest.Token(i.t, i.tokens, auth.Principal{UserID: 7, Role: auth.Admin}), method, path, body)
}

func (i *instance) by(key, method, path string) httpxtest.Answer {
	i.t.Helper()
	return httpxtest.Ask(i.t, i.router, key, method, path, nil)
}

func (i *instance) make(scopes ...string) (id, key string) {
	i.t.Helper()
	a := i.admin(http.MethodPost, "/api/v1/admin/api-keys", map[string]any{"name": "ERP", "scopes": scopes}).Want(i.t, "make", 201, "")
	return a.Text("id"), a.Text("key")
}

// A key calls what names its scope, and nothing else, whatever else it is offered to.
func TestAttackKeysStayInTheirScopes(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	i := start(t, db, bustest.Open(t), clock.System{})
	id, key := i.make("orders:read")
	first := i.by(key, http.MethodGet, "/api/v1/admin/orders").Want(t, "in its scope", 200, "", "viewer")
	i.by(key, http.MethodPost, "/api/v1/admin/orders").Want(t, "another scope", 403, "key-scope", "orders:write")
	i.by(key, http.MethodGet, "/api/v1/admin/users").Want(t, "a route without a scope", 403, "key-scope")
	i.by(key, http.MethodGet, "/api/v1/orders").Want(t, "a shopper's route", 403, "key-scope")
	i.by(key, http.MethodGet, "/api/v1/admin/api-keys").Want(t, "the keys themselves", 403, "key-scope")
	i.by(key, http.MethodGet, "/api/v1/ws").Want(t, "a route that asks for a principal", 200, "", `{"user":0}`)
	httpxtest.Ask(t, i.router, "", http.MethodGet, "/api/v1/admin/orders?token="+key, nil).Want(t, "a key in the query string", 401, "no-token")
	_, err := i.tokens.Admit(t.Context(), key)
	require.ErrorIs(t, err, auth.ErrBadToken) // as WebSockets and the office ask

	i.admin(http.MethodPatch, "/api/v1/admin/api-keys/"+id, map[string]any{"scopes": []string{"orders:write", "orders:read"}, "name": "Warehouse"}).
		Want(t, "change", 200, "", `"scopes":["orders:read","orders:write"]`)
	i.by(key, http.MethodPost, "/api/v1/admin/orders").Want(t, "the new scope", 200, "", "operator")
	i.by(key, http.MethodGet, "/api/v1/admin/orders").Want(t, "reading what it may write", 200, "", "operator")
	_, counts := i.make("orders:read", "stock:write")
	i.by(counts, http.MethodGet, "/api/v1/admin/orders").Want(t, "reading orders, writing stock", 200, "", "viewer") // sees no whole phones
	name := pgtest.Read[string](t, db, `SELECT u.name FROM account.users u JOIN account.api_keys k ON k.user_id = u.id`)
	require.Equal(t, "whom the audit log names", name, "Warehouse")
	require.Contains(t, "the user", first.Text("user")+string(first.Raw), pgtest.Read[string](t, db, `SELECT user_id::text FROM account.api_keys`))
	pgtest.Eventually(t, 30*time.Second, func() bool {
		return pgtest.Read[int](t, db, `SELECT count(*)::int FROM platform.audit a JOIN account.api_keys k ON k.user_id = a.actor WHERE a.action LIKE 'refused.%'`) > 0
	}, "refusals in the audit log")
	require.NoError(t, i.keys.NoteUses(t.Context()))
	i.admin(http.MethodGet, "/api/v1/admin/api-keys", nil).Want(t, "list", 200, "", `"last_used_at":"20`)
	if raw := string(i.admin(http.MethodGet, "/api/v1/admin/api-keys", nil).Want(t, "list", 200, "").Raw); strings.Contains(raw, key) {
		t.Errorf("the list shows the key: %s", raw)
	}
	stored := pgtest.Read[string](t, db, `SELECT string_agg(k::text, ' ') FROM account.api_keys k`) + pgtest.Read[string](t, db, `SELECT string_agg(detail::text, ' ') FROM platform.audit`)
	require.Equal(t, "the key is stored", strings.Contains(stored, key), false)
}

func TestKeysEndEverywhere(t *testing.T) {
	t.Parallel()
	db, b := pgtest.DB(t), bustest.Open(t)
	now := time.Now()
	here, there := start(t, db, b, clock.System{}), start(t, db, b, clock.System{})
	id, key := here.make("orders:read")
	ask := func(i *instance) int { return i.by(key, http.MethodGet, "/api/v1/admin/orders").Status }
	pgtest.Eventually(t, 3*time.Second, func() bool { return ask(there) == http.StatusOK }, "the other instance knows the key")
	here.admin(http.MethodPost, "/api/v1/admin/api-keys/"+id+"/revoke", nil).Want(t, "revoke", 200, "", `"state":"revoked"`)
	require.Equal(t, "here, at once", ask(here), http.StatusUnauthorized)
	pgtest.Eventually(t, 3*time.Second, func() bool { return ask(there) == http.StatusUnauthorized }, "the other instance refuses it")
	here.by(key, http.MethodGet, "/api/v1/admin/orders").Want(t, "its code", 401, "bad-key")
	here.admin(http.MethodPost, "/api/v1/admin/api-keys/"+id+"/revoke", nil).Want(t, "again", 200, "")
	here.admin(http.MethodPatch, "/api/v1/admin/api-keys/"+id, map[string]any{"name": "x"}).Want(t, "change a revoked one", 409, "key-revoked")

	soon := here.admin(http.MethodPost, "/api/v1/admin/api-keys", map[string]any{"name": "a", "scopes": []string{"orders:read"}, "expires_at": now.Add(time.Hour)}).
		Want(t, "one with an end", 201, "")
	later := start(t, db, b, clockAt{now.Add(2 * time.Hour)})
	for name, want := range map[*instance]int{here: 200, later: 401} {
		require.Equal(t, "one with an end", name.by(soon.Text("key"), http.MethodGet, "/api/v1/admin/orders").Status, want)
	}
	here.admin(http.MethodPost, "/api/v1/admin/api-keys", map[string]any{"name": "app", "scopes": []string{"orders:read"}, "namespace": "app"}).Want(t, "another namespace", 201, "", `"namespace":"app"`)
	p, err := here.keys.Admit(soon.Text("key"))
	require.NoError(t, err)
	require.Equal(t, "namespace of a key that was given none", p.Namespace, "backend")

	// A key that has expired is not in force; put off, it is, and counts.
	pgtest.Exec(t, db, `UPDATE account.api_keys SET expires_at = now() - interval '1 second' WHERE id = $1`, soon.Text("id"))
	pgtest.Exec(t, db, `INSERT INTO account.api_keys (user_id, name, hash, hint, scopes, created_by) SELECT user_id, 'x', sha256(n::text::bytea), 'x', scopes, 7
		FROM account.api_keys, generate_series(1, 99) n WHERE name = 'app'`)
	putOff := func(what string, status int, code string) {
		t.Helper()
		here.admin(http.MethodPatch, "/api/v1/admin/api-keys/"+soon.Text("id"), map[string]any{"expires_at": now.Add(time.Hour)}).Want(t, what, status, code)
	}
	putOff("one too many", 409, "keys-full")
	here.admin(http.MethodPatch, "/api/v1/admin/api-keys/"+soon.Text("id"), map[string]any{"name": "b"}).Want(t, "a name", 200, "", `"state":"expired"`)
	pgtest.Exec(t, db, `DELETE FROM account.api_keys WHERE hash = sha256('1')`)
	putOff("the last one", 200, "")
	putOff("one in force", 200, "")

	for what, body := range map[string]map[string]any{
		"namespace":     {"name": "a", "scopes": []string{"orders:read"}, "namespace": "https://issuer"},
		"no scope":      {"name": "a", "scopes": []string{}},
		"unknown scope": {"name": "a", "scopes": []string{"orders:*"}},
		"blank name":    {"name": " ", "scopes": []string{"orders:read"}},
		"past":          {"name": "a", "scopes": []string{"orders:read"}, "expires_at": now.Add(-time.Hour)},
		"too late":      {"name": "a", "scopes": []string{"orders:read"}, "expires_at": now.AddDate(6, 0, 0)},
	} {
		here.admin(http.MethodPost, "/api/v1/admin/api-keys", body).Want(t, what, 422, "invalid")
	}
}

// clockAt stands still.
type clockAt struct{ at time.Time }

func (c clockAt) Now() time.Time { return c.at }

// FuzzAdmit: no text but a key that was made is admitted, and none panics.
func FuzzAdmit(f *testing.F) {
	s := keys.New(keys.Deps{Clock: clock.System{}, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()})
	for _, seed := range []string{"", "stpk_", "stpk_" + strings.Repeat("0", 49), "stpk_" + strings.Repeat("\xff", 49), "Bearer stpk_" + strings.Repeat("z", 49)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if p, err := s.Admit(key); err == nil {
			t.Errorf("%q is %+v", key, p)
		}
	})
}

func TestMistypedKeysNeedNoLookUp(t *testing.T) {
	t.Parallel()
	key := keys.NewKey()
	require.Equal(t, "length of "+key, len(key), len("stpk_")+43+6)
	require.Equal(t, "a new key", keys.WellFormed(key), true)
	for at := len("stpk_"); at < len(key); at++ {
		mistyped := []byte(key)
		if mistyped[at]++; mistyped[at] > 'z' {
			mistyped[at] = '0'
		}
		require.Equal(t, "mistyped "+string(mistyped), keys.WellFormed(string(mistyped)), false)
	}
	require.Equal(t, "cut off", keys.WellFormed(key[:len(key)-1]), false)
}
