package payment

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/inventory"
	"stampede/order"
	"stampede/order/desk"
	"stampede/order/orderevent"
	"stampede/payment/provider"
	"stampede/payment/sandbox"
	"stampede/payment/sandbox/sandboxtest"
	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/keys"
	"stampede/platform/store/bus"
	"stampede/platform/store/pg"
	"stampede/platform/watch/tally"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) {
	pgtest.RapidChecks(40) // each case is a hundred round trips to Postgres
	pgtest.Main(m, func() error {
		http.DefaultClient.CloseIdleConnections() // the shoppers'
		return goleak.Find()
	})
}

const merchantNo = sandboxtest.Merchant

type waker struct{}

func (waker) Wake() {}

// bundle is the module with real neighbours: Postgres, Redis, NATS, inventory,
// order, and the bank on a real socket.
type bundle struct {
	*Service
	t      *testing.T
	db     *pgxpool.Pool
	orders *order.Service
	funnel *tally.Board
	line   *line
	plan   *plan
	bus    *bus.Bus
	tokens *auth.Tokens
	url    string
	door   *recorder
	bank   *gate
	bankAt string
	client *sandbox.Client

	item int64
	user *atomic.Int64 // the last shopper
}

// in is the same bundle for a subtest.
func (s *bundle) in(t *testing.T) *bundle {
	mine := *s
	mine.t = t
	return &mine
}

// run runs subtests that share a shop, named after their functions, one after the
// other: a separate database for each would take too long, so each checks its own
// order only.
func run(t *testing.T, s *bundle, tests ...func(*testing.T, *bundle)) {
	t.Helper()
	for _, test := range tests {
		name := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
		t.Run(name[strings.LastIndexByte(name, '.')+1:], func(t *testing.T) {
			t.Cleanup(func() {
				s.bank.shut.Store(false)
				s.door.lose.Store(false)
			})
			test(t, s.in(t))
		})
	}
}

type options struct {
	pay      func(*Config)
	practice bool
}

func setup(t *testing.T, o options) *bundle {
	t.Helper()
	db, rdb, b := pgtest.DB(t), pgtest.Redis(t), bustest.Open(t)
	log := slog.New(slog.DiscardHandler)
	stock := inventory.New(inventory.DefaultConfig(), inventory.Deps{
		DB: db, Redis: rdb, Bus: b, Grants: bustest.GrantsOf[inventory.StaleHold](b), Holds: order.Reader{}, Books: order.Reader{DB: db}, Log: log, Metrics: prometheus.NewRegistry(),
	})
	cfg := order.DefaultConfig()
	cfg.CacheBytes = 1 << 20 // the race detector shadows all of it
	funnel := tally.New(db, clock.System{}, log)
	queue, sales := new(line), new(plan)
	orders, err := order.New(cfg, order.Deps{
		DB: db, Redis: rdb, Bus: b, Grants: b.Queue(bustest.Grants().Name), Stock: stock, Queue: queue, Plan: sales, Outbox: waker{}, Log: log, Metrics: prometheus.NewRegistry(), Tally: funnel,
	})
	require.NoError(t, err)
	s := &bundle{t: t, db: db, orders: orders, funnel: funnel, line: queue, plan: sales, bus: b, tokens: auth.NewTokens([]byte("key of the tests, 32 bytes or more"), time.Now), user: new(atomic.Int64)}
	rt := httpx.NewRouter(s.tokens, log, "test", prometheus.NewRegistry())
	s.door = &recorder{Handler: rt}
	srv := httptest.NewServer(s.door)
	t.Cleanup(srv.Close)
	s.url = srv.URL
	s.bank, s.client = s.openBank()
	s.Service = s.instance(o, s.client)
	orders.Routes(rt)
	s.Routes(rt)
	desk.New(desk.Deps{
		DB: db, Orders: orders, Payments: s.Payments, Refunds: s.Refunds, Cancel: s.Cancel, Plan: sales, Outbox: waker{}, Log: log,
	}).Routes(rt)

	err = pg.InTx(t.Context(), db, func(tx pgx.Tx) error {
		s.item = 1
		return stock.Create(t.Context(), tx, inventory.NewStock{
			Item: inventory.Item{ID: s.item, ActivityID: 9}, Total: 10_000, UserLimit: 10, OpensAt: time.Now(), ClosesAt: time.Now().Add(time.Hour),
		})
	})
	require.NoError(t, err)
	return s
}

// settlesAt pays at the bank's page and waits until the order is paid.
func (s *bundle) settlesAt(payURL string, no ids.ID, how ...sandbox.Behaviour) {
	s.t.Helper()
	s.payAt(payURL, append(how, sandbox.Normal)[0])
	s.until("the order is paid", func() bool { return s.status(no) == orderevent.StatusPaid })
}

// instance is another process of the module on the same database.
func (s *bundle) instance(o options, providers ...provider.Provider) *Service {
	s.t.Helper()
	cfg := DefaultConfig()
	cfg.RefundBackoff, cfg.QueryAfter = time.Millisecond, time.Millisecond
	if o.pay != nil {
		o.pay(&cfg)
	}
	log := slog.New(slog.DiscardHandler)
	apiKeys := keys.New(keys.Deps{DB: s.db, Log: log, Metrics: prometheus.NewRegistry()})
	svc, err := New(cfg, Deps{
		DB: s.db, Orders: s.orders, Plan: s.plan, Providers: providers, Practice: o.practice, MakerOf: apiKeys.MakerOf, BaseURL: s.url,
		Log: log, Metrics: prometheus.NewRegistry(),
	})
	require.NoError(s.t, err)
	return svc
}

// serve serves an instance of its own, and returns its address.
func (s *bundle) serve(svc *Service) (url string) {
	rt := httpx.NewRouter(s.tokens, slog.New(slog.DiscardHandler), "shop", prometheus.NewRegistry())
	svc.Routes(rt)
	srv := httptest.NewServer(rt)
	s.t.Cleanup(srv.Close)
	return srv.URL
}

// buy writes pending orders of one unit each for as many users and returns
// their numbers. It takes the units from the stock as the order writer does.
func (s *bundle) buy(n int, price int64) (nos []ids.ID, users []int64) {
	s.t.Helper()
	var buckets []int16
	for range n {
		user := s.user.Add(1)
		no := ids.NewFor(user)
		nos, users, buckets = append(nos, no), append(users, user), append(buckets, no.Bucket())
	}
	s.exec(`INSERT INTO orders.orders (bucket, order_no, user_id, item_id, activity_id, session_id, epoch, quantity, unit_price, currency, title, status, pay_deadline)
		SELECT b, no, u, $4, 9, 5, 1, 1, $5, 'CNY', '限量版跑鞋', 'pending_payment', now() + interval '10 minutes'
		FROM unnest($1::smallint[], $2::uuid[], $3::bigint[]) AS x (b, no, u)`, buckets, nos, users, s.item, price)
	s.exec(`UPDATE inventory.stock SET available = available - $2 WHERE item_id = $1`, s.item, n)
	return nos, users
}

func (s *bundle) one(price int64) (ids.ID, int64) {
	s.t.Helper()
	nos, users := s.buy(1, price)
	return nos[0], users[0]
}

func (s *bundle) exec(sql string, args ...any) {
	s.t.Helper()
	pgtest.Exec(s.t, s.db, sql, args...)
}

func (s *bundle) until(what string, cond func() bool) {
	s.t.Helper()
	pgtest.Eventually(s.t, 10*time.Second, cond, what)
}

// gate is in front of the bank's addresses, so that a test can make the bank
// unreachable, or lose its answers.
type gate struct {
	http.Handler
	shut, mute atomic.Bool
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.shut.Load() {
		panic(http.ErrAbortHandler)
	}
	if g.mute.Load() {
		g.Handler.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	g.Handler.ServeHTTP(w, r)
}

// recorder keeps the callbacks that arrive and may lose them in transit.
type recorder struct {
	http.Handler
	lose atomic.Bool // answer nothing, forward nothing

	mu   sync.Mutex
	came []recorded
}

// recorded is one callback as the bank sent it.
type recorded struct {
	path   string
	header http.Header
	body   []byte
}

func (d *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "notify") {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		d.mu.Lock()
		d.came = append(d.came, recorded{r.URL.Path, r.Header.Clone(), body})
		d.mu.Unlock()
		if d.lose.Load() {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	d.Handler.ServeHTTP(w, r)
}

// callbacks returns the callbacks received so far.
func (d *recorder) callbacks() []recorded {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.came)
}

// openBank serves a bank on its own socket, with its worker, on the shop's
// database.
func (s *bundle) openBank() (*gate, *sandbox.Client) {
	s.t.Helper()
	g := &gate{}
	bank := sandboxtest.OpenBehind(s.t, s.db, func(bank http.Handler) http.Handler {
		g.Handler = bank
		return g
	})
	bank.Speak(s.t)
	s.bankAt = bank.URL
	return g, s.clientOf("sandbox", bank.URL)
}

func (s *bundle) clientOf(name, bankURL string) *sandbox.Client {
	s.t.Helper()
	cfg := sandbox.DefaultClientConfig()
	cfg.Name, cfg.Merchant, cfg.Secret, cfg.BankURL = name, sandboxtest.Merchant, []byte(sandboxtest.Secret), bankURL
	cfg.Backoff, cfg.BreakerDelay, cfg.BreakerFailures = time.Millisecond, time.Millisecond, 1000
	c := sandbox.NewClient(cfg, clock.System{})
	s.t.Cleanup(c.CloseIdleConnections)
	return c
}

// payAt acts as a shopper at the bank's page.
func (s *bundle) payAt(payURL string, behaviour sandbox.Behaviour) {
	s.t.Helper()
	a, err := s.tryPost(0, payURL, fmt.Sprintf(`{"behaviour":%q}`, behaviour))
	require.NoError(s.t, err)
	s.says(a, "captured")
}
