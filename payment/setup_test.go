package payment

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
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
	"stampede/payment/provider"
	"stampede/payment/sandbox"
	"stampede/platform/auth"
	"stampede/platform/bus/bustest"
	"stampede/platform/clock"
	"stampede/platform/httpx"
	"stampede/platform/ids"
	"stampede/platform/pg"
	"stampede/platform/pgtest"
)

func TestMain(m *testing.M) {
	// One case of the model is a hundred round trips to Postgres; forty of them
	// take a few seconds. -rapid.checks asks for more.
	if err := flag.Set("rapid.checks", "40"); err != nil {
		panic(err)
	}
	pgtest.Main(m, func() error {
		http.DefaultClient.CloseIdleConnections() // the shoppers'
		return goleak.Find()
	})
}

var bankSecret = []byte("a secret that only tests know, 32+")

const merchantNo = "shop-1"

type waker struct{}

func (waker) Wake() {}

// gate stands before the bank's addresses, so that a test can take the bank
// away.
type gate struct {
	http.Handler
	shut atomic.Bool
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.shut.Load() {
		panic(http.ErrAbortHandler)
	}
	g.Handler.ServeHTTP(w, r)
}

// recorder keeps the callbacks that arrive and may lose them on the way.
type recorder struct {
	http.Handler
	lose atomic.Bool // answer nothing, hand nothing on

	mu   sync.Mutex
	came []recorded
}

// recorded is one callback as it came from the bank.
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

// callbacks returns what has come so far.
func (d *recorder) callbacks() []recorded {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.came)
}

// shop is the module with real neighbours: Postgres, Redis, NATS, inventory,
// order, and the bank on a real socket.
type shop struct {
	*Service
	t      *testing.T
	db     *pgxpool.Pool
	orders *order.Service
	tokens *auth.Tokens
	url    string
	door   *recorder
	bank   *gate
	bankAt string
	client *sandbox.Client

	item int64
	user *atomic.Int64 // the last shopper
}

// subtest is one of several that share a shop, one after the other: what costs
// time is a database of one's own, so each looks at its own order only.
type subtest struct {
	name string
	run  func(*testing.T, *shop)
}

// in is the same shop, failing a subtest.
func (s *shop) in(t *testing.T) *shop {
	mine := *s
	mine.t = t
	return &mine
}

func run(t *testing.T, s *shop, tests []subtest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Cleanup(func() {
				s.bank.shut.Store(false)
				s.door.lose.Store(false)
			})
			tt.run(t, s.in(t))
		})
	}
}

type options struct {
	pay  func(*Config)
	bank func(*sandbox.Config)
}

func setup(t *testing.T, o options) *shop {
	t.Helper()
	db, rdb, b := pgtest.DB(t), pgtest.Redis(t), bustest.Open(t)
	log := slog.New(slog.DiscardHandler)
	stock, err := inventory.New(inventory.DefaultConfig(), inventory.Deps{
		DB: db, Redis: rdb, Bus: b, Holds: order.HoldReader{}, Log: log, Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	orders, err := order.New(order.DefaultConfig(), order.Deps{
		DB: db, Redis: rdb, Bus: b, Stock: stock, Outbox: waker{}, Log: log, Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{t: t, db: db, orders: orders, tokens: auth.NewTokens([]byte("key of the tests, 32 bytes or more"), time.Now), user: new(atomic.Int64)}
	rt := httpx.NewRouter(s.tokens, log, "test", prometheus.NewRegistry())
	s.door = &recorder{Handler: rt}
	srv := httptest.NewServer(s.door)
	t.Cleanup(srv.Close)
	s.url = srv.URL
	s.bank, s.client = s.openBank(o)
	s.Service = s.instance(o, s.client)
	s.Routes(rt)

	err = pg.InTx(t.Context(), db, func(tx pgx.Tx) error {
		s.item = 1
		return stock.Create(t.Context(), tx, inventory.NewStock{
			Item: inventory.Item{ID: s.item, ActivityID: 9}, Total: 10_000, UserLimit: 10, OpensAt: time.Now(), ClosesAt: time.Now().Add(time.Hour),
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// openBank serves a bank on a socket of its own, with its worker, on the
// shop's database.
func (s *shop) openBank(o options) (*gate, *sandbox.Client) {
	s.t.Helper()
	cfg := sandbox.DefaultConfig()
	cfg.Merchant, cfg.Secret = merchantNo, bankSecret
	cfg.CallbackBackoff, cfg.RefundDelay, cfg.Poll = 10*time.Millisecond, 5*time.Millisecond, 20*time.Millisecond
	if o.bank != nil {
		o.bank(&cfg)
	}
	g := &gate{}
	srv := httptest.NewServer(g)
	s.t.Cleanup(srv.Close)
	cfg.PublicURL = srv.URL
	bank, err := sandbox.New(cfg, sandbox.Deps{DB: s.db, Clock: clock.System{}, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()})
	if err != nil {
		s.t.Fatal(err)
	}
	rt := httpx.NewRouter(s.tokens, slog.New(slog.DiscardHandler), "bank", prometheus.NewRegistry())
	bank.Routes(rt.Mux)
	g.Handler = rt
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = bank.Workers()[0].Run(ctx)
	}()
	s.t.Cleanup(func() { cancel(); <-done; bank.Close() })
	s.bankAt = srv.URL
	return g, s.clientOf("sandbox", srv.URL)
}

func (s *shop) clientOf(name, bankURL string) *sandbox.Client {
	s.t.Helper()
	cfg := sandbox.DefaultClientConfig()
	cfg.Name, cfg.Merchant, cfg.Secret, cfg.BankURL = name, merchantNo, bankSecret, bankURL
	cfg.Backoff, cfg.BreakerDelay, cfg.BreakerFailures = time.Millisecond, time.Millisecond, 1000
	c, err := sandbox.NewClient(cfg, clock.System{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.HangUp)
	return c
}

// instance is one more process of the module on the same database.
func (s *shop) instance(o options, providers ...provider.Provider) *Service {
	s.t.Helper()
	cfg := DefaultConfig()
	cfg.RefundBackoff, cfg.QueryAfter = time.Millisecond, time.Millisecond
	if o.pay != nil {
		o.pay(&cfg)
	}
	svc, err := New(cfg, Deps{
		DB: s.db, Orders: s.orders, Outbox: waker{}, Providers: providers, BaseURL: s.url,
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return svc
}

// buy writes pending orders of one unit each for as many users and returns
// their numbers. The unit comes out of the stock as the order writer takes it.
func (s *shop) buy(n int, price int64) (nos []ids.ID, users []int64) {
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

func (s *shop) one(price int64) (ids.ID, int64) {
	s.t.Helper()
	nos, users := s.buy(1, price)
	return nos[0], users[0]
}

func (s *shop) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.db.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Fatal(err)
	}
}

// read scans one value.
func read[T any](s *shop, sql string, args ...any) T {
	s.t.Helper()
	var v T
	if err := s.db.QueryRow(s.t.Context(), sql, args...).Scan(&v); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func (s *shop) status(no ids.ID) string {
	return read[string](s, `SELECT status FROM orders.orders WHERE order_no = $1`, no)
}

func (s *shop) until(what string, cond func() bool) {
	s.t.Helper()
	pgtest.Eventually(s.t, 10*time.Second, cond, what)
}

// answer is what a request got: the status and the members of its JSON.
type answer struct {
	status int
	body   map[string]any
}

func (a answer) text(member string) string { v, _ := a.body[member].(string); return v }

// post sends JSON as a user; user 0 sends no token.
func (s *shop) post(user int64, path, body string) answer {
	a, err := s.tryPost(user, s.url+path, body)
	if err != nil {
		s.t.Helper()
		s.t.Fatal(err)
	}
	return a
}

func (s *shop) tryPost(user int64, url, body string, headers ...string) (answer, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if user != 0 {
		token, err := s.tokens.Mint(auth.Principal{UserID: user, Role: auth.Shopper}, time.Minute)
		if err != nil {
			return answer{}, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: resp.StatusCode}
	if err := json.Unmarshal(raw, &a.body); err != nil {
		return a, fmt.Errorf("status %d, no JSON: %q", resp.StatusCode, raw)
	}
	return a, nil
}

// startPayment asks for a payment and requires that there is one.
func (s *shop) startPayment(no ids.ID, user int64) (paymentNo ids.ID, payURL string) {
	s.t.Helper()
	a := s.post(user, "/api/v1/orders/"+no.String()+"/payments", "")
	if a.status != http.StatusOK || a.text("pay_url") == "" {
		s.t.Fatalf("start: %d %v", a.status, a.body)
	}
	paymentNo, err := ids.Parse(a.text("payment_no"))
	if err != nil {
		s.t.Fatal(err)
	}
	return paymentNo, a.text("pay_url")
}

// payAt is a shopper at the bank's page.
func (s *shop) payAt(payURL string, behaviour sandbox.Behaviour) {
	s.t.Helper()
	a, err := s.tryPost(0, payURL, fmt.Sprintf(`{"behaviour":%q}`, behaviour))
	if err != nil || a.status != http.StatusOK || a.text("status") != "captured" {
		s.t.Fatalf("pay: %+v, %v", a, err)
	}
}

// events counts the outbox rows of a subject that name an order.
func (s *shop) events(subject string, no ids.ID) int {
	return read[int](s, `SELECT count(*) FROM platform.outbox WHERE subject = $1 AND position(convert_to($2, 'UTF8') IN payload) > 0`, subject, no.String())
}

// ledger counts the ledger rows of an order.
func (s *shop) ledger(no ids.ID, kind string) int {
	return read[int](s, `SELECT count(*) FROM payments.ledger WHERE order_no = $1 AND kind = $2`, no, kind)
}

// refundOf is "reason status" of the order's refund, "" without one.
func (s *shop) refundOf(no ids.ID) string {
	return read[string](s, `SELECT coalesce(max(reason || ' ' || status), '') FROM payments.refunds WHERE order_no = $1`, no)
}

// refundRequested waits until money of the order is to go back.
func (s *shop) refundRequested(no ids.ID, reason string) {
	s.t.Helper()
	s.until("the refund is requested", func() bool { return s.refundOf(no) == reason+" requested" })
}

// refundsDone works through refunds until those of the order have ended.
func (s *shop) refundsDone(no ids.ID) {
	s.t.Helper()
	s.until("every refund ends", func() bool {
		if _, err := s.refundDue(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		return read[int](s, `SELECT count(*) FROM payments.refunds WHERE status = 'requested' AND order_no = $1`, no) == 0
	})
}

// callbacksLeft counts the bank's callbacks about a payment that it has not had
// acknowledged.
func (s *shop) callbacksLeft(paymentNo ids.ID) int {
	return read[int](s, `SELECT count(*) FROM sandbox.callbacks WHERE status <> 'acknowledged' AND position(convert_to($1, 'UTF8') IN body) > 0`,
		paymentNo.String())
}

// paymentStatus is the status of a payment's row.
func (s *shop) paymentStatus(no ids.ID) string {
	return read[string](s, `SELECT status FROM payments.payments WHERE payment_no = $1`, no)
}

// booksAreRight runs the module's own proofs.
func (s *shop) booksAreRight() {
	s.t.Helper()
	for _, c := range s.Checks() {
		found, err := c.Run(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		for _, v := range found {
			s.t.Errorf("%s violated: %s: %s", c.ID, v.Subject, v.Detail)
		}
	}
}

// alarms counts the alarms of a code about a subject.
func (s *shop) alarms(code, subject string) int {
	return read[int](s, `SELECT count(*) FROM platform.alarms WHERE code = $1 AND subject = $2`, code, subject)
}
