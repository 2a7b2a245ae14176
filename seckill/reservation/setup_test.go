package reservation_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/humancheck"
	"stampede/platform/store/redisx"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/plan"
	"stampede/seckill/reservation"
	"stampede/seckill/rush"
)

func TestMain(m *testing.M) {
	// A client whose server is gone dials once a second and ends after its next attempt.
	redial := goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
	pgtest.Main(m, func() error { return goleak.Find(redial) })
}

// shop is one instance of all of seckill, with reservations checked at its
// door.
type shop struct {
	t     testing.TB
	db    *pgxpool.Pool
	rdb   *redis.Client
	items *catalogue.Catalogue
	sale  *seckill.Service
	clock *seckilltest.Clock
	human *human
	// queries counts the statements on the reservations' connections.
	queries *atomic.Int64
	*desk

	activity, session string
	item              *catalogue.Item
}

// desk is one instance of the reservations with its metrics and its router.
type desk struct {
	t       testing.TB
	svc     *reservation.Service
	metrics *prometheus.Registry
	rt      *httpx.Router
	tokens  *auth.Tokens
}

// edit changes the shop's plan.
type edit = func(activity, session, item map[string]any)

// open publishes an item of ten units whose session opens in 90 s, when paths are
// already issued, and whose reservation is open until 10 s before.
func open(t testing.TB, change ...edit) *shop {
	t.Helper()
	y := seckilltest.New(t)
	s := &shop{t: t, db: y.DB, rdb: y.Redis, clock: new(seckilltest.Clock), human: &human{used: map[string]bool{}}}
	quiet := slog.New(slog.DiscardHandler)
	cfg := seckill.DefaultConfig()
	cfg.CanPay = true
	deps := seckill.Deps{
		DB: s.db, Redis: s.rdb, Bus: y.Bus, Stock: y.NewStock(), Outbox: seckilltest.Waker{}, Clock: s.clock, Log: quiet,
		Metrics: prometheus.NewRegistry(), Orders: y.Orders, SigningKey: seckilltest.Key,
	}
	var err error
	s.items, err = catalogue.New(plan.NewPublished(cfg.Config, s.db), quiet, deps.Metrics)
	require.NoError(t, err)
	counted, queries := seckilltest.Statements(t, s.db)
	s.queries, s.desk = queries, s.instance(counted, s.rdb)
	deps.Catalogue, deps.Admit = s.items, s.svc.Check
	deps.Grants = y.NewQueue(deps.Catalogue, deps.Metrics)
	deps.Places = rush.NewPlaces(cfg.Rush, deps.Catalogue, deps.Stock, deps.Grants, deps.Clock)
	s.sale, err = seckill.New(cfg, deps)
	require.NoError(t, err)
	s.sale.Routes(s.rt)
	operators := seckilltest.NewDesk(y)
	s.sale.Routes(operators.Router)
	made := operators.Publish(90*time.Second, append([]edit{func(_, session, _ map[string]any) {
		now := time.Now().UTC()
		session["reservation_opens_at"], session["reservation_closes_at"] = now.Add(-time.Hour), now.Add(80*time.Second)
	}}, change...)...)
	s.activity, s.session, s.item = made.Activity, made.Session, s.sale.Catalogue.Items()[0]
	return s
}

// instance is another process of the shop, as far as reservations are
// concerned.
func (s *shop) instance(db *pgxpool.Pool, rdb redis.UniversalClient) *desk {
	s.t.Helper()
	d := &desk{t: s.t, metrics: prometheus.NewRegistry(), tokens: auth.NewTokens(seckilltest.Key, time.Now)}
	locks, err := redisx.OpenLocks(s.t.Context(), slog.New(slog.DiscardHandler), rdb)
	require.NoError(s.t, err)
	d.svc = reservation.New(reservation.Deps{
		DB: db, Locks: locks, Items: s.items, Human: s.human, Clock: s.clock, Log: slog.New(slog.DiscardHandler), Metrics: d.metrics,
		PathLead: rush.DefaultConfig().PathLead,
	})
	d.rt = httpx.NewRouter(d.tokens, slog.New(slog.DiscardHandler), "test", prometheus.NewRegistry())
	d.svc.Routes(d.rt.API)
	return d
}

// capped sets the cap as a multiple of the ten units.
func capped(multiple float64) edit {
	return func(_, session, _ map[string]any) { session["reservation_cap"] = multiple }
}

// window moves the reservation window to the given distances from now, which the
// API does not allow.
func (s *shop) window(from, until time.Duration) {
	s.t.Helper()
	s.sql(`UPDATE seckill.sessions SET reservation_opens_at = now() + make_interval(secs => $1),
		reservation_closes_at = now() + make_interval(secs => $2)`, from.Seconds(), until.Seconds())
	s.refresh()
}

// opening moves the opening to the given distance from now.
func (s *shop) opening(in time.Duration) {
	s.t.Helper()
	s.sql(`UPDATE seckill.sessions SET opens_at = now() + make_interval(secs => $1), closes_at = now() + make_interval(secs => $1 + 60)`, in.Seconds())
	s.refresh()
}

// refresh has the instance read a plan that a statement changed.
func (s *shop) refresh() {
	s.t.Helper()
	s.sql(`UPDATE seckill.activities SET revision = revision + 1`)
	require.NoError(s.t, s.sale.Catalogue.Refresh(s.t.Context()))
	s.item = s.sale.Catalogue.Items()[0]
}

func (s *shop) sql(statement string, args ...any) {
	s.t.Helper()
	pgtest.Exec(s.t, s.db, statement, args...)
}

func (s *shop) number(query string, args ...any) int {
	s.t.Helper()
	return pgtest.Read[int](s.t, s.db, query, args...)
}

// rows is the number of reservations in Postgres.
func (s *shop) rows() int { return s.number(`SELECT count(*) FROM seckill.reservations`) }

// reply is an answer of the API.
type reply struct{ seckilltest.Reply }

// want requires a status and, unless it is empty, a problem's code.
func (r reply) want(t testing.TB, status int, code string) reply {
	t.Helper()
	r.Want(t, "an answer", status, code)
	return r
}

// as calls the API as a user in a role.
func (d *desk) as(role auth.Role, user int64, method, path string, body any, headers ...string) reply {
	d.t.Helper()
	token := httpxtest.Token(d.t, d.tokens, auth.Principal{UserID: user, Role: role})
	return reply{seckilltest.Reply{Answer: httpxtest.Ask(d.t, d.rt, token, method, path, body, headers...)}}
}

// shopper calls one of the item's routes as a shopper.
func (s *shop) shopper(user int64, method, what string, headers ...string) reply {
	return s.as(auth.Shopper, user, method, s.route(what), nil, headers...)
}

func (s *shop) route(what string) string {
	return "/api/v1/items/" + strconv.FormatInt(s.item.ID, 10) + "/" + what
}

func (s *shop) reserve(user int64, headers ...string) reply {
	return s.shopper(user, http.MethodPost, "reservation", headers...)
}

func (s *shop) path(user int64) reply { return s.shopper(user, http.MethodPost, "rush-path") }

// lookups is the number of lookups answered from a source.
func (d *desk) lookups(t testing.TB, from string) int {
	t.Helper()
	return int(seckilltest.Counted(t, d.metrics, "stampede_seckill_reservation_lookups_total", from))
}

// human accepts each proof once, as the real check does.
type human struct {
	mu    sync.Mutex
	used  map[string]bool
	asked int
	last  humancheck.Subject
}

func (h *human) Check(_ context.Context, kind humancheck.Kind, sub humancheck.Subject, solution string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	h.last = sub
	switch {
	case kind != humancheck.Pow:
		return errors.New("not the kind that the activity requires")
	case solution == "":
		return humancheck.ErrRequired
	case h.used[solution]:
		return humancheck.ErrFailed
	}
	h.used[solution] = true
	return nil
}
