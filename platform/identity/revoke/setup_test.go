package revoke

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/goleak"

	"stampede/platform/base/clock"
	"stampede/platform/edge/auth"
	"stampede/platform/store/bus"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
)

func TestMain(m *testing.M) { pgtest.MainWaiting(m, func() error { return goleak.Find() }) }

// within is three times the promised second.
const within = 3 * staleAfter

// bundle is what the instances of a test share.
type bundle struct {
	db       *pgxpool.Pool
	database string
	redis    string
	bus      *bus.Bus
}

func setup(t testing.TB) bundle {
	t.Helper()
	url := pgtest.DatabaseURL(t)
	return bundle{db: pool(t, url, nil), database: url, redis: pgtest.RedisURL(t), bus: bustest.Open(t)}
}

func pool(t testing.TB, url string, w *wire) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	if w != nil {
		cfg.ConnConfig.DialFunc = w.dial
	}
	p, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		if err := pg.Close(ctx, p); err != nil {
			t.Error(err)
		}
	})
	return p
}

// instance is one process of the shop, with connections that a test can cut.
type instance struct {
	*Service
	postgres, store *wire
	broadcasts      *line
	stop            func()
}

// start runs an instance that has loaded its revocations.
func (s bundle) start(t testing.TB) *instance {
	t.Helper()
	i := s.build(t)
	if err := i.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	i.run(t)
	return i
}

func (s bundle) build(t testing.TB) *instance {
	t.Helper()
	i := &instance{postgres: &wire{}, store: &wire{}, broadcasts: &line{Bus: s.bus}, stop: func() {}}
	opts, err := redis.ParseURL(s.redis)
	if err != nil {
		t.Fatal(err)
	}
	opts.Dialer, opts.MaxRetries, opts.ContextTimeoutEnabled = i.store.dialTo(opts.Network), -1, true
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	i.Service = New(Deps{
		DB: pool(t, s.database, i.postgres), Redis: rdb, Bus: i.broadcasts, Log: slog.New(slog.DiscardHandler),
		Metrics: prometheus.NewRegistry(), Clock: clock.System{},
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

// wire is the connection to a store, which a test can cut and restore.
type wire struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

var errCut = errors.New("the test has cut this")

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		return nil, errCut
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err == nil {
		w.conns = append(w.conns, conn)
	}
	return conn, err
}

func (w *wire) dialTo(network string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) { return w.dial(ctx, network, address) }
}

func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	if cut {
		for _, conn := range w.conns {
			_ = conn.Close()
		}
		w.conns = nil
	}
}

// line is an instance's connection to the bus.
type line struct {
	*bus.Bus
	cut atomic.Bool
}

func (l *line) Broadcast(subject string, data []byte) error {
	if l.cut.Load() {
		return errCut
	}
	return l.Bus.Broadcast(subject, data)
}

func (l *line) OnBroadcast(subject string, fn func([]byte)) (func(), error) {
	return l.Bus.OnBroadcast(subject, func(data []byte) {
		if !l.cut.Load() {
			fn(data)
		}
	})
}

func (l *line) Healthy(ctx context.Context) error {
	if l.cut.Load() {
		return bus.ErrUnhealthy.Because(errCut)
	}
	return l.Bus.Healthy(ctx)
}

// commit revokes logins in its own transaction without calling Tell.
func (s bundle) commit(t testing.TB, i *instance, logins ...int64) {
	t.Helper()
	err := pg.InTx(t.Context(), s.db, func(tx pgx.Tx) error { return i.Logins(t.Context(), tx, "test", logins...) })
	if err != nil {
		t.Fatal(err)
	}
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
