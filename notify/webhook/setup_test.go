package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

type bundle struct {
	*Service
	t      *testing.T
	db     *pgxpool.Pool
	router *httpx.Router
	tokens *auth.Tokens
}

func setup(t *testing.T, cfg Settings) *bundle {
	t.Helper()
	b := &bundle{t: t, db: pgtest.DB(t), tokens: auth.NewTokens([]byte(strings.Repeat("k1", 16)), time.Now)}
	b.Service = &Service{cfg: cfg}
	return b.with("a signing key")
}

// with is an instance of the same shop with these signing keys.
func (b *bundle) with(keys ...string) *bundle {
	b.t.Helper()
	log := slog.New(slog.NewTextHandler(b.t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	other := &bundle{t: b.t, db: b.db, tokens: b.tokens}
	var signing [][]byte
	for _, key := range keys {
		signing = append(signing, []byte(key))
	}
	other.Service = New(b.cfg, Deps{DB: b.db, SigningKeys: signing, Log: log, Metrics: prometheus.NewRegistry()})
	other.backoff, other.probe, other.idle = []time.Duration{10 * time.Millisecond, 10 * time.Millisecond}, 10*time.Millisecond, 10*time.Millisecond
	other.router = httpx.NewRouter(b.tokens, log, "test", prometheus.NewRegistry())
	other.Routes(other.router)
	return other
}

// alarms counts those of a definition.
func (b *bundle) alarms(of *alarm.Definition) int {
	b.t.Helper()
	return pgtest.Read[int](b.t, b.db, `SELECT count(*)::int FROM platform.alarms WHERE code = $1`, string(of.Code))
}

func (b *bundle) ask(role auth.Role, method, path string, body any) httpxtest.Answer {
	b.t.Helper()
	token := httpxtest.Token(b.t, b.tokens, auth.Principal{UserID: 7, Role: role})
	return httpxtest.Ask(b.t, b.router, token, method, path, body)
}

// hook adds a webhook and returns its id and its secret.
func (b *bundle) hook(url string, types ...string) (id, secret string) {
	b.t.Helper()
	a := b.ask(auth.Admin, http.MethodPost, "/api/v1/admin/webhooks", map[string]any{"url": url, "types": append([]string{}, types...)}).Want(b.t, "add", 201, "")
	return a.Text("id"), a.Text("secret")
}

// state is a webhook in the list.
func (b *bundle) state(id string) map[string]any {
	b.t.Helper()
	for _, w := range b.ask(auth.Viewer, http.MethodGet, "/api/v1/admin/webhooks", nil).Want(b.t, "list", 200, "").Doc["data"].([]any) {
		if w := w.(map[string]any); w["id"] == id {
			return w
		}
	}
	return nil
}

// happens puts a message of orders into the log, as the relay does.
func (b *bundle) happens(subject string, orders ...orderevent.Order) {
	b.t.Helper()
	packed, err := orderevent.Pack(orders)
	require.NoError(b.t, err)
	for _, payload := range packed {
		b.message(subject, payload)
	}
}

func (b *bundle) message(subject string, payload any) {
	b.t.Helper()
	require.NoError(b.t, pg.InTx(context.Background(), b.db, func(tx pgx.Tx) error {
		id, err := outbox.Append(context.Background(), tx, subject, payload)
		if err == nil {
			_, err = tx.Exec(context.Background(), `SELECT pg_advisory_xact_lock(1)`) // as the relay's
		}
		if err == nil {
			_, err = tx.Exec(context.Background(), `UPDATE platform.outbox SET sent_at = now() WHERE id = $1`, id)
		}
		return err
	}))
}

func order(no ids.ID, version int32) orderevent.Order {
	return orderevent.Order{No: no, UserID: 9, ItemID: 5, Quantity: 1, UnitPrice: 9900, Currency: "CNY", Status: "paid", Version: version, CreatedAt: exampleAt}
}

// receiver is a shop's backend. It takes what its verdict returns 200 for.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	secret  string
	verdict func(e Event, version float64) int
	taken   []Event
	tries   map[string]int
	flaw    error
}

func receive(t *testing.T, verdict func(e Event, version float64) int) *receiver {
	t.Helper()
	r := &receiver{verdict: verdict, tries: map[string]int{}}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) serve(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	verifier, err := standardwebhooks.NewWebhook(r.secret)
	if err == nil {
		err = verifier.Verify(body, req.Header)
	}
	var e Event
	if err == nil {
		err = json.Unmarshal(body, &e)
	}
	if err == nil && e.ID != req.Header.Get("webhook-id") {
		err = fmt.Errorf("the body is event %s, the header names %s", e.ID, req.Header.Get("webhook-id"))
	}
	if err != nil {
		r.flaw = err
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.tries[e.ID]++
	status := http.StatusOK
	if r.verdict != nil {
		status = r.verdict(e, versionOf(e))
	}
	if status/100 == 2 {
		r.taken = append(r.taken, e)
	}
	w.WriteHeader(status)
}

func versionOf(e Event) float64 {
	var data map[string]any
	_ = json.Unmarshal(e.Data, &data)
	version, _ := data["version"].(float64)
	return version
}

// orderNo is the order of an event.
func orderNo(e Event) string {
	var data map[string]any
	_ = json.Unmarshal(e.Data, &data)
	no, _ := data["order_no"].(string)
	return no
}

// await waits until the receiver has taken n different events, and returns what it took.
func (r *receiver) await(t *testing.T, n int) []Event {
	t.Helper()
	var taken []Event
	pgtest.Eventually(t, 30*time.Second, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		require.NoError(t, r.flaw)
		taken = slices.Clone(r.taken)
		different := map[string]bool{}
		for _, e := range taken {
			different[e.ID] = true
		}
		return len(different) >= n
	}, fmt.Sprintf("%d events at the receiver", n))
	return taken
}

// inOrder requires that no order's version came after a higher one.
func inOrder(t *testing.T, taken []Event) {
	t.Helper()
	last := map[string]float64{}
	for _, e := range taken {
		no, version := orderNo(e), versionOf(e)
		if version < last[no] {
			t.Errorf("version %v of order %s came after %v", version, no, last[no])
		}
		last[no] = version
	}
}
