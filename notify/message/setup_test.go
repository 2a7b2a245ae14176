package message

import (
	"cmp"
	"context"
	"encoding/json"
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

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/base/signature"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

var secret = []byte(strings.Repeat("gw", 16))

// gateway is an SMS gateway's stand-in: it checks signatures and takes a message once.
type gateway struct {
	*httptest.Server
	mu      sync.Mutex
	verdict func(n int, m sms.Message) int // of the n-th call
	calls   int
	tries   map[string]int
	taken   []sms.Message
}

func takes(int, sms.Message) int { return http.StatusOK }

// halfOfTheTime fails every first call about a message.
func halfOfTheTime() func(int, sms.Message) int {
	seen := map[string]bool{}
	return func(_ int, m sms.Message) int {
		if seen[m.ID] {
			return http.StatusOK
		}
		seen[m.ID] = true
		return http.StatusServiceUnavailable
	}
}

func receive(t testing.TB, verdict func(int, sms.Message) int) *gateway {
	t.Helper()
	g := &gateway{verdict: verdict, tries: map[string]int{}}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		var m sms.Message
		if err := json.Unmarshal(body, &m); err != nil || signature.Stampede.Verify(r.Header, secret, time.Now(), body) != nil {
			t.Errorf("the gateway got %s", body)
		}
		g.calls++
		g.tries[m.ID]++
		status := g.verdict(g.calls, m)
		if status == http.StatusOK && !slices.ContainsFunc(g.taken, func(had sms.Message) bool { return had.ID == m.ID }) {
			g.taken = append(g.taken, m)
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(g.Close)
	return g
}

// to are the texts that a phone got, oldest first.
func (g *gateway) to(phone string) (texts []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.taken {
		if m.Phone == phone {
			texts = append(texts, m.Text)
		}
	}
	return texts
}

// sale is what is on sale, and who reserved it.
type sale struct {
	mu       sync.Mutex
	openings []seckillevent.Opening
	reserved map[int64][]int64
}

func (s *sale) Openings(after, until time.Time) (open []seckillevent.Opening) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.openings {
		if o.OpensAt.After(after) && !o.OpensAt.After(until) {
			open = append(open, o)
		}
	}
	return open
}

func (s *sale) Opening(id int64) (seckillevent.Opening, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.openings, func(o seckillevent.Opening) bool { return o.ItemID == id })
	if i < 0 {
		return seckillevent.Opening{}, false
	}
	return s.openings[i], true
}

func (s *sale) ReservedBy(_ context.Context, item, after int64, limit int32) (users []int64, err error) {
	for _, user := range s.reserved[item] {
		if user > after && len(users) < int(limit) {
			users = append(users, user)
		}
	}
	return users, nil
}

// orders are the unpaid ones, by their deadline, and what was sent.
type orders struct {
	unpaid   []orderevent.Order
	parcels  map[ids.ID]string // tracking numbers
	statuses map[ids.ID]string // unless pending
}

func (o *orders) Statuses(_ context.Context, nos []ids.ID) (map[ids.ID]string, error) {
	found := map[ids.ID]string{}
	for _, no := range nos {
		found[no] = cmp.Or(o.statuses[no], orderevent.StatusPending)
	}
	return found, nil
}

func (o *orders) Unpaid(_ context.Context, after time.Time, afterNo ids.ID, until time.Time, most int) (found []orderevent.Order, err error) {
	for _, u := range o.unpaid {
		behind := u.PayDeadline.After(after) || u.PayDeadline.Equal(after) && slices.Compare(u.No[:], afterNo[:]) > 0
		if behind && !u.PayDeadline.After(until) && len(found) < most {
			found = append(found, u)
		}
	}
	return found, nil
}

func (o *orders) Parcels(_ context.Context, nos []ids.ID) (map[ids.ID]orderevent.Parcel, error) {
	found := map[ids.ID]orderevent.Parcel{}
	for _, no := range nos {
		if tracking := o.parcels[no]; tracking != "" {
			found[no] = orderevent.Parcel{Carrier: fault.T("SF Express", "顺丰速运"), TrackingNo: tracking, At: time.Now()}
		}
	}
	return found, nil
}

type bundle struct {
	*Service
	t      testing.TB
	db     *pgxpool.Pool
	gw     *gateway
	sale   *sale
	orders *orders
	router *httpx.Router
	tokens *auth.Tokens
}

func setup(t testing.TB, verdict func(int, sms.Message) int) *bundle {
	t.Helper()
	b := &bundle{
		t: t, db: pgtest.DB(t), gw: receive(t, verdict), sale: &sale{reserved: map[int64][]int64{}}, orders: &orders{parcels: map[ids.ID]string{}, statuses: map[ids.ID]string{}},
		tokens: auth.NewTokens([]byte(strings.Repeat("k1", 16)), time.Now),
	}
	b.Service = b.instance()
	b.router = httpx.NewRouter(b.tokens, b.deps.Log, "test", prometheus.NewRegistry())
	b.Routes(b.router)
	return b
}

// instance is another process of the same shop.
func (b *bundle) instance() *Service {
	b.t.Helper()
	log := slog.New(slog.NewTextHandler(b.t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	cfg := sms.DefaultGatewayConfig()
	cfg.URL, cfg.Secret, cfg.Attempts, cfg.BreakerFailures = b.gw.URL, secret, 1, 1000
	sender := sms.NewGateway(cfg, time.Now, slog.New(slog.DiscardHandler))
	b.t.Cleanup(sender.CloseIdleConnections)
	accounts := &account.Store{DB: b.db}
	s := New(Settings{Rate: 5000}, Deps{
		DB: b.db, Sender: sender, Contacts: accounts.ContactsOf, Reach: sms.Reach{sms.Everywhere}, OpenIDs: accounts.OpenIDsOf,
		Orders: b.orders, Sale: b.sale, Reserved: b.sale, Signature: "好店", BaseURL: "https://shop.example",
		SigningKeys: [][]byte{[]byte("a signing key")}, Zone: time.UTC, Keep: 24 * time.Hour, Log: log, Metrics: prometheus.NewRegistry(),
	})
	s.backoff, s.idle, s.pause = []time.Duration{10 * time.Millisecond}, 10*time.Millisecond, time.Millisecond
	return s
}

// user adds an account with a phone.
func (b *bundle) user(phone string) (id int64) {
	b.t.Helper()
	return pgtest.Read[int64](b.t, b.db, `INSERT INTO account.users (phone) VALUES ($1) RETURNING id`, phone)
}

func pending(user int64, deadline time.Time) orderevent.Order {
	return orderevent.Order{
		No: ids.NewFor(user), UserID: user, ItemID: 5, Quantity: 1, UnitPrice: 9900, Currency: "CNY", Title: "手机", Status: orderevent.StatusPending, Version: 1,
		PayDeadline: deadline, CreatedAt: time.Now(), UpdatedAt: time.Now(),
	}
}

// event is a message about orders as the bus delivers it.
func event(t testing.TB, subject string, orders ...orderevent.Order) bus.Msg {
	t.Helper()
	packed, err := orderevent.Pack(orders)
	require.NoError(t, err)
	return bus.Msg{ID: ids.New(), Subject: subject, Data: packed[0]}
}

// happens handles an event, twice as the bus may.
func (b *bundle) happens(subject string, orders ...orderevent.Order) {
	b.t.Helper()
	for i := range orders {
		if orders[i].Status != orderevent.StatusPending {
			b.orders.statuses[orders[i].No] = orders[i].Status
		}
	}
	m := event(b.t, subject, orders...)
	for range 2 {
		require.NoError(b.t, b.ordersChanged(b.t.Context(), m))
	}
}

// drain sends until no message waits. It cancels nothing: a claim that is abandoned half way lasts for a minute.
func (b *bundle) drain() {
	b.t.Helper()
	pgtest.Eventually(b.t, 30*time.Second, func() bool {
		for _, l := range lanes {
			_, err := b.batch(b.t.Context(), l)
			require.NoError(b.t, err)
		}
		return b.count(waiting) == 0
	}, "every message ends")
}

func (b *bundle) count(state string) int {
	b.t.Helper()
	return pgtest.Read[int](b.t, b.db, `SELECT count(*)::int FROM notify.messages WHERE state = $1`, state)
}

// reasons are those of the messages in a state.
func (b *bundle) reasons(state string) string {
	b.t.Helper()
	return pgtest.Read[string](b.t, b.db, `SELECT coalesce(string_agg(kind || ': ' || reason, ', ' ORDER BY kind, reason), '') FROM notify.messages WHERE state = $1`, state)
}

func (b *bundle) ask(user int64, role auth.Role, method, path string, body any) httpxtest.Answer {
	b.t.Helper()
	token := httpxtest.Token(b.t, b.tokens, auth.Principal{UserID: user, Role: role})
	return httpxtest.Ask(b.t, b.router, token, method, path, body)
}

// rule sets the shop's rules.
func (b *bundle) rule(to func(r *Rules)) {
	b.t.Helper()
	ctx := auth.Into(b.t.Context(), auth.Principal{UserID: 7, Role: auth.Admin})
	_, err := b.change(ctx, to)
	require.NoError(b.t, err)
}

// opens puts an item on sale that these users have reserved.
func (b *bundle) opens(item int64, in time.Duration, users ...int64) seckillevent.Opening {
	o := seckillevent.Opening{ItemID: item, SessionID: 31, Title: "手机", OpensAt: b.now().Add(in).Truncate(time.Second), ClosesAt: b.now().Add(in + time.Hour)}
	b.sale.openings, b.sale.reserved[item] = append(b.sale.openings, o), users
	return o
}

// dueNow lets what waits for its time be sent at once.
func (b *bundle) dueNow() {
	b.t.Helper()
	pgtest.Exec(b.t, b.db, `UPDATE notify.messages SET next_try = clock_timestamp() WHERE state = 'waiting'`)
}

var lanes = []lane{{}, {offers: true}, {mail: true}, {offers: true, mail: true}}

// sends lets an instance send until the test ends.
func sends(t testing.TB, s *Service) {
	t.Helper()
	backlogs := map[bool]*atomic.Bool{false: {}, true: {}}
	for _, l := range lanes {
		pgtest.Work(t, func(ctx context.Context) error { return s.sendLoop(ctx, l, backlogs[l.mail]) })
	}
}
