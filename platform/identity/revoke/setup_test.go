package revoke

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/platform/base/clock"
	"stampede/platform/edge/auth"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/linktest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.MainWaiting(m, func() error { return goleak.Find() }) }

// within is three times the promised second.
const within = 3 * time.Second

// bundle is what the instances of a test share.
type bundle struct {
	db       *pgxpool.Pool
	database string
}

func setup(t testing.TB) bundle {
	t.Helper()
	url := pgtest.DatabaseURL(t)
	return bundle{db: pool(t, url, func(*pgx.ConnConfig) {}), database: url}
}

func pool(t testing.TB, url string, change func(*pgx.ConnConfig)) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	change(cfg.ConnConfig)
	p, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		if err := pg.Close(ctx, p); err != nil {
			t.Error(err)
		}
	})
	return p
}

// instance is one process of the shop, with a connection to Postgres that a test can
// cut.
type instance struct {
	*Service
	postgres *linktest.Link
	reads    reads
	stop     func()
}

// start runs an instance that has loaded its revocations.
func (s bundle) start(t testing.TB) *instance {
	t.Helper()
	i := s.build(t)
	require.NoError(t, i.Load(t.Context()))
	i.run(t)
	return i
}

func (s bundle) build(t testing.TB) *instance {
	t.Helper()
	i := &instance{stop: func() {}}
	db := pool(t, s.database, func(cfg *pgx.ConnConfig) {
		network, address := pgconn.NetworkAddress(cfg.Host, cfg.Port)
		i.postgres = linktest.New(t, network, address)
		cfg.Tracer = &i.reads
		cfg.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", i.postgres.Addr())
		}
	})
	i.Service = New(Deps{
		DB: db, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Clock: clock.System{},
	})
	return i
}

// run starts the workers and restarts them as the application does.
func (i *instance) run(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for _, w := range i.Workers() {
		group.Go(func() {
			for ctx.Err() == nil {
				if err := w.Run(ctx); err != nil && ctx.Err() == nil {
					t.Errorf("%s: %v", w.Name, err)
					return
				}
			}
		})
	}
	i.stop = func() { cancel(); group.Wait() }
	t.Cleanup(func() { i.stop() })
}

// reads counts the reads of revocations.
type reads struct{ atomic.Int64 }

func (r *reads) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "RevocationsSince") {
		r.Add(1)
	}
	return ctx
}

func (*reads) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// commit revokes logins in its own transaction without calling Tell.
func (s bundle) commit(t testing.TB, i *instance, logins ...int64) {
	t.Helper()
	err := pg.InTx(t.Context(), s.db, func(tx pgx.Tx) error { return i.Logins(t.Context(), tx, "test", logins...) })
	require.NoError(t, err)
}

func of(login int64) auth.Principal {
	return auth.Principal{UserID: 7, Role: auth.Shopper, Login: login, IssuedAt: time.Now()}
}

// says is Revoked as a condition: an error counts as false.
func (i *instance) says(p auth.Principal) bool {
	revoked, err := i.Revoked(context.Background(), p)
	return revoked && err == nil
}

// lets reports whether a token is admitted.
func (i *instance) lets(p auth.Principal) bool {
	revoked, err := i.Revoked(context.Background(), p)
	return !revoked && err == nil
}
