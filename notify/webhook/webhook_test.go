package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"stampede/notify/webhook/internal/webhookdb"
	"stampede/order/couponevent"
	"stampede/order/orderevent"
	"stampede/order/pointsevent"
	"stampede/payment/paymentevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/outbound"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
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

func TestEventsArriveSignedAndInOrder(t *testing.T) {
	t.Parallel()
	b, r := setup(t, Settings{Private: true}), receive(t, nil)
	b.happens(orderevent.SubjectCreated, order(ids.New(), 1)) // before the webhook
	hook, secret := b.hook(r.URL, "order.paid", "order.closed", "activity.changed")
	require.Equal(t, "prefix of the secret", strings.HasPrefix(secret, "whsec_"), true)
	r.secret = secret
	pgtest.Work(t, b.deliver)

	first, second := ids.New(), ids.New()
	b.happens(orderevent.SubjectPaid, order(first, 2), order(second, 2))
	b.happens(orderevent.SubjectShipped, order(first, 3)) // a type that it does not want
	b.happens(orderevent.SubjectClosed, order(first, 4))
	b.message(seckillevent.SubjectChanged, seckillevent.Changed{ActivityID: 12})
	b.message("events.user.registered", map[string]any{"user_id": "9"}) // stays inside
	taken := r.await(t, 4)
	inOrder(t, taken)
	var got []string
	for _, e := range taken {
		got = append(got, e.Type)
	}
	slices.Sort(got)
	require.Equal(t, "types", got, []string{"activity.changed", "order.closed", "order.paid", "order.paid"})

	// The former secret goes on for a day.
	renewed := b.ask(auth.Admin, http.MethodPost, "/api/v1/admin/webhooks/"+hook+"/secret", nil).Want(t, "renew", 200, "").Text("secret")
	require.Equal(t, "another secret", renewed != secret && strings.HasPrefix(renewed, "whsec_"), true)
	for i, secret := range []string{secret, renewed} {
		r.mu.Lock()
		r.secret = secret
		r.mu.Unlock()
		b.happens(orderevent.SubjectPaid, order(ids.New(), 2))
		r.await(t, 5+i)
	}
	pgtest.Exec(t, b.db, `UPDATE notify.webhooks SET former_until = now() - interval '1 second'`)
	tested := b.ask(auth.Operator, http.MethodPost, "/api/v1/admin/webhooks/"+hook+"/test", nil).Want(t, "test", 200, "")
	require.Equal(t, "test by the new secret", tested.Doc["status"], any(200.0))
	require.Contains(t, "types at the receiver", r.await(t, 7)[6].Type, typeTest)

	again := b.ask(auth.Operator, http.MethodPost, "/api/v1/admin/webhooks/"+hook+"/send", map[string]any{"event_id": taken[0].ID}).Want(t, "send again", 200, "")
	require.Equal(t, "status", again.Doc["status"], any(200.0))
	b.ask(auth.Operator, http.MethodPost, "/api/v1/admin/webhooks/"+hook+"/send", map[string]any{"event_id": ids.New().String() + "-0"}).Want(t, "no event", 404, "")
	var attempts []any
	pgtest.Eventually(t, time.Minute, func() bool { // a delivery is in the log after its answer
		attempts = b.ask(auth.Viewer, http.MethodGet, "/api/v1/admin/webhooks/"+hook+"/attempts?limit=100", nil).Want(t, "attempts", 200, "").Doc["data"].([]any)
		return len(attempts) == 8
	}, "eight attempts in the log")
	of := 0
	for _, a := range attempts {
		if a.(map[string]any)["event_id"] == taken[0].ID {
			of++
		}
	}
	require.Equal(t, "attempts of what was sent again", of, 2)
}

// What a receiver refuses is tried again, with the later events of the same order behind it.
func TestEventThatFailsHoldsBackItsOrderOnly(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{Private: true})
	bad, good := ids.New(), ids.New()
	released := false
	r := receive(t, func(e Event, _ float64) int {
		if orderNo(e) == bad.String() && !released {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})
	hook, secret := b.hook(r.URL)
	r.secret = secret
	b.backoff = slices.Repeat([]time.Duration{10 * time.Millisecond}, 10_000)
	pgtest.Work(t, b.deliver)
	for version := int32(1); version <= 3; version++ {
		b.happens(orderevent.SubjectPaid, order(bad, version), order(good, version))
	}
	taken := r.await(t, 3)
	for _, e := range taken {
		require.Equal(t, "the order that was taken", orderNo(e), good.String())
	}
	pgtest.Eventually(t, 30*time.Second, func() bool { return b.state(hook)["waiting"] == 3.0 }, "events behind the first")
	r.mu.Lock()
	released = true
	r.mu.Unlock()
	taken = r.await(t, 6)
	inOrder(t, taken)
	pgtest.Eventually(t, 30*time.Second, func() bool { return b.state(hook)["waiting"] == 0.0 && b.state(hook)["state"] == "working" }, "nothing waits")
}

// A receiver that is away, or hangs, loses nothing and gets no flood; the log is the queue.
func TestReceiverThatIsAwayLosesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{Private: true})
	down := true
	r := receive(t, func(Event, float64) int {
		if down {
			return http.StatusBadGateway
		}
		return http.StatusNoContent
	})
	hook, secret := b.hook(r.URL)
	r.secret = secret
	stop := pgtest.Work(t, b.deliver)
	orders := make([]ids.ID, 40)
	for i := range orders {
		orders[i] = ids.New()
	}
	for version := int32(1); version <= 20; version++ { // 800 events
		batch := make([]orderevent.Order, len(orders))
		for i, no := range orders {
			batch[i] = order(no, version)
		}
		b.happens(orderevent.SubjectPaid, batch...)
	}
	pgtest.Eventually(t, 30*time.Second, func() bool { return b.state(hook)["state"] == "failing" }, "the webhook fails")
	pgtest.Exec(t, b.db, `UPDATE notify.webhooks SET failing_since = now() - interval '11 minutes'`)
	found, err := b.Probes()[0].Look(t.Context())
	require.NoError(t, err)
	require.Equal(t, "findings of "+string(alarmFailing.Code), len(found), 1)
	require.Contains(t, "finding", found[0].Detail, "HTTP 502")
	stop() // the process dies; another one goes on
	r.mu.Lock()
	tried := 0
	for _, n := range r.tries {
		tried += n
	}
	down = false
	r.mu.Unlock()
	if tried > 100 {
		t.Errorf("%d deliveries to a receiver that is away", tried)
	}
	pgtest.Exec(t, b.db, `UPDATE platform.leases SET expires_at = now() WHERE name = 'webhooks'`)
	pgtest.Work(t, b.deliver)
	inOrder(t, firstOfEach(r.await(t, 800)))
	pgtest.Eventually(t, 30*time.Second, func() bool { return b.state(hook)["waiting"] == 0.0 && b.state(hook)["behind"] == 0.0 }, "nothing waits")
}

// firstOfEach drops the repetitions.
func firstOfEach(events []Event) (first []Event) {
	seen := map[string]bool{}
	for _, e := range events {
		if !seen[e.ID] {
			first = append(first, e)
		}
		seen[e.ID] = true
	}
	return first
}

// An event that is refused for as long as the back-off goes is given up, while others are taken.
func TestEventIsGivenUp(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{Private: true})
	bad := ids.New()
	r := receive(t, func(e Event, version float64) int {
		if orderNo(e) == bad.String() && version == 1 {
			return http.StatusUnprocessableEntity
		}
		return http.StatusOK
	})
	hook, secret := b.hook(r.URL)
	r.secret = secret
	pgtest.Work(t, b.deliver)
	b.happens(orderevent.SubjectCreated, order(bad, 1))
	b.happens(orderevent.SubjectPaid, order(bad, 2))
	require.Equal(t, "what is taken", versionOf(r.await(t, 1)[0]), 2.0)
	require.Equal(t, "alarms", b.alarms(alarmGivenUp), 1)
	pgtest.Eventually(t, 30*time.Second, func() bool { return b.state(hook)["waiting"] == 0.0 }, "nothing waits")
	failed := b.ask(auth.Viewer, http.MethodGet, "/api/v1/admin/webhooks/"+hook+"/attempts?failed=true", nil).Want(t, "failed attempts", 200, "").Doc["data"].([]any)
	require.Equal(t, "failed attempts", len(failed), 3)
}

func TestAttackReceiversThatMisbehave(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		private bool
		answer  http.HandlerFunc
		says    string
	}{
		"a redirect": {true, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, "HTTP 307"},
		"a hang": {true, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // or the server does not see the client leave
			<-r.Context().Done()
		}, "timeout"},
		"a private address": {false, func(http.ResponseWriter, *http.Request) { t.Error("a private address is called") }, "--webhook-private"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, Settings{Private: true})
			b.client = outbound.New(outbound.Config{Peer: "webhook", Timeout: 300 * time.Millisecond, Attempts: 1, MaxBytes: 100, Public: !c.private})
			server := httptest.NewServer(c.answer)
			t.Cleanup(server.Close)
			hook, _ := b.hook(server.URL)
			got := b.ask(auth.Operator, http.MethodPost, "/api/v1/admin/webhooks/"+hook+"/test", nil).Want(t, "test", 200, "")
			require.Contains(t, "error", got.Text("error"), c.says)
		})
	}
}

// 410 means that the receiver wants no more; enabled again, it goes on where it was.
func TestGoneDisables(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{Private: true})
	gone := true
	r := receive(t, func(Event, float64) int {
		if gone {
			return http.StatusGone
		}
		return http.StatusOK
	})
	hook, secret := b.hook(r.URL + "/services/a-secret-in-the-path")
	r.secret = secret
	pgtest.Work(t, b.deliver)
	b.happens(orderevent.SubjectPaid, order(ids.New(), 1), order(ids.New(), 1))
	pgtest.Eventually(t, 30*time.Second, func() bool { return b.state(hook)["state"] == "disabled" }, "the webhook is disabled")
	r.mu.Lock()
	gone = false
	r.mu.Unlock()
	require.Equal(t, "alarms", b.alarms(alarmDisabled), 1)
	detail := pgtest.Read[string](t, b.db, `SELECT detail FROM platform.alarms WHERE code = $1`, string(alarmDisabled.Code))
	require.Equal(t, "what other receivers learn of the address", detail, strings.TrimPrefix(r.URL, "http://"))
	b.ask(auth.Admin, http.MethodPatch, "/api/v1/admin/webhooks/"+hook, map[string]any{"enabled": true}).Want(t, "enable", 200, "")
	r.await(t, 2)
}

// A webhook that an operator disables or sends elsewhere gets nothing more, though a delivery hangs.
func TestChangeEndsTheDeliveryUnderWay(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{Private: true})
	hangs, left := make(chan struct{}, 1), make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not see the client leave
		hangs <- struct{}{}
		<-r.Context().Done()
		left <- struct{}{}
	}))
	t.Cleanup(server.Close)
	hook, secret := b.hook(server.URL)
	pgtest.Work(t, b.deliver)
	b.happens(orderevent.SubjectPaid, order(ids.New(), 1))
	<-hangs
	other := receive(t, nil)
	other.secret = secret
	b.ask(auth.Admin, http.MethodPatch, "/api/v1/admin/webhooks/"+hook, map[string]any{"url": other.URL}).Want(t, "another address", 200, "")
	select {
	case <-left:
	case <-time.After(3 * time.Second): // lead looks each second
		t.Error("the delivery to the former address goes on")
	}
	other.await(t, 1)
}

// The secrets outlive the signing key that sealed them, if both were accepted for a while; one whose key is gone sends
// nothing unsigned, and can be renewed.
func TestSecretsOutliveTheSigningKey(t *testing.T) {
	t.Parallel()
	b, r := setup(t, Settings{Private: true}), receive(t, nil)
	hook, secret := b.hook(r.URL)
	r.secret = secret
	for n, keys := range [][]string{{"the next key", "a signing key"}, {"the next key"}} {
		instance := b.with(keys...)
		stop := pgtest.Work(t, instance.deliver)
		b.happens(orderevent.SubjectPaid, order(ids.New(), 1))
		r.await(t, n+1)
		stop()
		pgtest.Exec(t, b.db, `UPDATE platform.leases SET expires_at = now() WHERE name = 'webhooks'`)
	}

	lost := b.with("a third key")
	got := lost.ask(auth.Operator, http.MethodPost, "/api/v1/admin/webhooks/"+hook+"/test", nil).Want(t, "test", 200, "")
	require.Contains(t, "error", got.Text("error"), "renew it")
	renewed := lost.ask(auth.Admin, http.MethodPost, "/api/v1/admin/webhooks/"+hook+"/secret", nil).Want(t, "renew", 200, "").Text("secret")
	r.mu.Lock()
	r.secret = renewed
	r.mu.Unlock()
	got = lost.ask(auth.Operator, http.MethodPost, "/api/v1/admin/webhooks/"+hook+"/test", nil).Want(t, "test", 200, "")
	require.Equal(t, "status with the new secret", got.Doc["status"], any(200.0))
}

// A message that this release cannot read stops the webhook, with an alarm: skipped, it would be lost.
func TestUnreadableMessageStopsTheWebhook(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{Private: true})
	var r *receiver
	r = receive(t, func(e Event, _ float64) int { // which refuses the first attempt
		if r.tries[e.ID] == 1 {
			return 503
		}
		return 200
	})
	_, secret := b.hook(r.URL)
	r.secret = secret
	before := ids.New()
	b.happens(orderevent.SubjectPaid, order(before, 1))
	b.message(orderevent.SubjectPaid, "written by a newer release")
	b.happens(orderevent.SubjectPaid, order(ids.New(), 1))
	page := b.ask(auth.Viewer, http.MethodGet, "/api/v1/events", nil).Want(t, "the events before it", 200, "")
	require.Equal(t, "events of the page", len(page.Doc["data"].([]any)), 1)
	b.ask(auth.Viewer, http.MethodGet, "/api/v1/events?after="+page.Text("next"), nil).Want(t, "the message itself", 500, "internal")
	pgtest.Work(t, b.deliver)
	require.Equal(t, "the event taken", orderNo(r.await(t, 1)[0]), before.String())
	pgtest.Eventually(t, 30*time.Second, func() bool { return b.alarms(alarmFailing) == 1 }, "the alarm")
	require.Contains(t, "its detail", pgtest.Read[string](t, b.db, `SELECT detail FROM platform.alarms`), "cannot be read")
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Equal(t, "events taken", len(r.taken), 1)
}

// A process that was away writes down what it did: the event that another one has delivered meanwhile must not wait again.
func TestLateCourierBringsNothingBack(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{Private: true})
	hook, _ := b.hook("https://shop.invalid/")
	no := ids.New()
	b.happens(orderevent.SubjectPaid, order(no, 1), order(no, 2))
	pgtest.Exec(t, b.db, `INSERT INTO notify.webhook_waiting SELECT 1, 1, n, 'x', 1, now() FROM generate_series(0, 1) n`)
	pgtest.Exec(t, b.db, `UPDATE notify.webhooks SET place = 2`)
	w, err := webhookdb.New(b.db).Webhook(t.Context(), 1)
	require.NoError(t, err)
	late := &work{service: b.Service, webhook: w, failures: 1}
	for n := range int32(2) {
		e := Event{at: place{1, n}, about: "x"}
		late.result(due{Event: e, attempts: 1, waits: true}, made{Event: e, err: io.ErrUnexpectedEOF, at: time.Now()})
	}
	pgtest.Exec(t, b.db, `DELETE FROM notify.webhook_waiting WHERE number = 0`) // by the other process
	for _, cursor := range []place{{1, 0}, {2, 1}} {                            // the other has moved it
		moved, err := late.note(t.Context(), cursor, place{3, 0})
		require.NoError(t, err)
		require.Equal(t, "moved the cursor from "+cursor.String(), moved, false)
	}
	_, err = late.note(t.Context(), place{2, 0}, place{2, 0})
	require.NoError(t, err)
	pgtest.Exec(t, b.db, `UPDATE notify.webhooks SET enabled = false`)
	moved, err := late.note(t.Context(), place{2, 0}, place{3, 0})
	require.NoError(t, err)
	require.Equal(t, "moved the cursor of a disabled webhook", moved, false)
	require.Equal(t, "waiting events of "+hook, b.state(hook)["waiting"], any(1.0))
	require.Equal(t, "attempts of the other", pgtest.Read[int](t, b.db, `SELECT attempts FROM notify.webhook_waiting`), 2)
}

func TestRoutesRefuseBadInput(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{})
	for _, url := range []string{"http://shop.example/", "ftp://shop.example/", "https://user:word@shop.example/", "https://", "https://shop.example/#a", "::"} {
		b.ask(auth.Admin, http.MethodPost, "/api/v1/admin/webhooks", map[string]any{"url": url}).Want(t, url, 422, "invalid")
	}
	b.ask(auth.Admin, http.MethodPost, "/api/v1/admin/webhooks", map[string]any{"url": "https://shop.example/", "types": []string{"order.payed"}}).
		Want(t, "an unknown type", 422, "invalid", "order.paid")
	b.ask(auth.Operator, http.MethodPost, "/api/v1/admin/webhooks", map[string]any{"url": "https://shop.example/"}).Want(t, "an operator", 403, "")
	hook, secret := b.hook("https://shop.example/")
	if raw := string(b.ask(auth.Viewer, http.MethodGet, "/api/v1/admin/webhooks", nil).Raw); strings.Contains(raw, secret) || strings.Contains(raw, `"secret"`) {
		t.Errorf("the list shows the secret: %s", raw)
	}
	stored := pgtest.Read[string](t, b.db, `SELECT encode(secret, 'base64') FROM notify.webhooks`)
	require.Equal(t, "the secret is stored as it is", strings.Contains(stored, strings.TrimPrefix(secret, "whsec_")), false)
	audited := pgtest.Read[string](t, b.db, `SELECT string_agg(detail::text, ' ') FROM platform.audit`)
	require.Equal(t, "the audit log has the secret", strings.Contains(audited, secret), false)
	for range maxWebhooks - 1 {
		b.hook("https://shop.example/")
	}
	b.ask(auth.Admin, http.MethodPost, "/api/v1/admin/webhooks", map[string]any{"url": "https://shop.example/"}).Want(t, "one too many", 409, "webhooks-full")
	b.ask(auth.Admin, http.MethodDelete, "/api/v1/admin/webhooks/"+hook, nil).Want(t, "remove", 200, "")
	b.ask(auth.Admin, http.MethodDelete, "/api/v1/admin/webhooks/"+hook, nil).Want(t, "remove again", 404, "")
}

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

// Two processes that believe to lead repeat events and lose none.
func TestTwoCouriersLoseNothing(t *testing.T) {
	t.Parallel()
	b, r := setup(t, Settings{Private: true}), receive(t, nil)
	_, secret := b.hook(r.URL)
	r.secret = secret
	for range 50 {
		b.happens(orderevent.SubjectPaid, order(ids.New(), 1), order(ids.New(), 1))
	}
	for range 2 {
		pgtest.Work(t, func(ctx context.Context) error { b.courier(ctx, 1); return nil })
	}
	r.await(t, 100)
}

// Each subject that is listed becomes events as its module writes it, and every type has an example.
func TestMessagesBecomeEvents(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{})
	no := exampleNo
	for _, c := range []struct {
		subject string
		payload any
		want    []string
	}{
		{paymentevent.SubjectClosed, paymentevent.Closed{PaymentNo: no, OrderNo: no, UserID: 7, Amount: 5, Currency: "CNY"}, []string{`payment.closed {"payment_no":"NO","order_no":"NO","user_id":"7","amount":{"amount":5,"currency":"CNY"}}`}},
		{paymentevent.SubjectRefundFailed, paymentevent.RefundFailed{Refund: paymentevent.Refund{RefundNo: no, OrderNo: no, UserID: 7, Amount: 5, Currency: "CNY", Reason: "late"}, Detail: "no"}, []string{
			`refund.failed {"refund_no":"NO","order_no":"NO","user_id":"7","amount":{"amount":5,"currency":"CNY"},"reason":"late","detail":"no"}`,
		}},
		{paymentevent.SubjectRefundAwaiting, paymentevent.RefundAwaiting{Refund: paymentevent.Refund{RefundNo: no, OrderNo: no, UserID: 7, Amount: 5, Currency: "CNY", Reason: "operator"}}, []string{
			`refund.awaiting_approval {"refund_no":"NO","order_no":"NO","user_id":"7","amount":{"amount":5,"currency":"CNY"},"reason":"operator"}`,
		}},
		{seckillevent.SubjectSessionEnded, seckillevent.Session{SessionID: 3, ActivityID: 2, ActivityExternalID: "a", OpensAt: exampleAt, ClosesAt: exampleAt, Terminated: true}, []string{
			`session.ended {"session_id":"3","activity_id":"2","activity_external_id":"a","opens_at":"2026-11-11T12:00:00.000Z","closes_at":"2026-11-11T12:00:00.000Z","terminated":true}`,
		}},
		{seckillevent.SubjectItemSoldOut, seckillevent.Items{Items: []seckillevent.Item{{ItemID: 4, SKU: "x", SessionID: 3, ActivityID: 2, Held: 1}, {ItemID: 5, ExternalID: "e", SKU: "y", SessionID: 3, ActivityID: 2, Unlimited: true}}}, []string{
			`item.sold_out {"item_id":"4","sku":"x","session_id":"3","activity_id":"2","left":0,"held":1}`,
			`item.sold_out {"item_id":"5","external_id":"e","sku":"y","session_id":"3","activity_id":"2","held":0}`,
		}},
		{couponevent.SubjectUsed, couponevent.Changed{Coupons: []couponevent.Coupon{{CouponNo: &no, KindID: 6, UserID: 7, OrderNo: &no, Discount: 5, Currency: "CNY"}}}, []string{
			`coupon.used {"coupon_no":"NO","kind_id":"6","user_id":"7","order_no":"NO","discount":{"amount":5,"currency":"CNY"}}`,
		}},
		{pointsevent.SubjectTakenBack, pointsevent.Entry{EntryNo: no, OrderNo: no, UserID: 7, Points: -5}, []string{
			`points.taken_back {"entry_no":"NO","order_no":"NO","user_id":"7","points":-5}`,
		}},
		{couponevent.SubjectRecalled, couponevent.Changed{Coupons: []couponevent.Coupon{{KindID: 6}}}, []string{`coupon.recalled {"kind_id":"6"}`}},
		{alarm.SubjectRaised, alarm.Raised{ID: 1, Incident: 2, Code: "x", Severity: alarm.Warning, Subject: "s", NextAction: "Wait.", OpenedAt: exampleAt}, []string{
			`alarm.raised {"alarm_id":"1","incident":2,"code":"x","severity":"warning","subject":"s","next_action":"Wait.","opened_at":"2026-11-11T12:00:00.000Z"}`,
		}},
	} {
		b.message(c.subject, c.payload)
		a := b.ask(auth.Viewer, http.MethodGet, "/api/v1/events?type="+kinds[c.subject].name, nil).Want(t, c.subject, 200, "")
		var page Events
		require.NoError(t, json.Unmarshal(a.Raw, &page))
		var got []string
		for _, e := range page.Data {
			got = append(got, e.Type+" "+strings.ReplaceAll(string(e.Data), no.String(), "NO"))
		}
		require.Equal(t, c.subject, got, c.want)
	}
	for subject, k := range kinds {
		of := reflect.TypeOf(k.example)
		schemas, found := huma.NewMapRegistry("#/", huma.DefaultSchemaNamer), new(huma.ValidateResult)
		huma.Validate(schemas, schemas.Schema(of, false, of.Name()), huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, plain(k.example), found)
		if len(found.Errors) > 0 {
			t.Errorf("the example of %s is not as its schema: %v", subject, found.Errors)
		}
	}
}
