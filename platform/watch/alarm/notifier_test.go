package alarm_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/config"
	"stampede/platform/base/signature"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

const secret = "0123456789abcdef0123456789abcdef"

// receiver is a webhook's receiver. It verifies each message before it answers.
type receiver struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	hangs    chan struct{} // if not nil, it answers only once this is closed
	refusing int           // how many more it refuses
	asked    int
	refused  []string // ids in the order they came
	accepted []string
}

func newReceiver(t *testing.T, refusing int) *receiver {
	t.Helper()
	r := &receiver{t: t, refusing: refusing}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		r.t.Error(err)
	}
	r.mu.Lock()
	r.asked++
	r.mu.Unlock()
	if r.hangs != nil {
		select {
		case <-r.hangs:
		case <-req.Context().Done():
			return
		}
	}
	if err := signature.Stampede.Verify(req.Header, []byte(secret), time.Now(), body); err != nil {
		r.t.Errorf("message %s: %v", body, err)
	}
	if signature.Stampede.Verify(req.Header, []byte(secret), time.Now(), append(body, ' ')) == nil ||
		signature.Stampede.Verify(req.Header, []byte("another secret of thirty-two bytes"), time.Now(), body) == nil ||
		signature.Stampede.Verify(req.Header, []byte(secret), time.Now().Add(6*time.Minute), body) == nil {
		r.t.Error("the signature matches a message that it must not match")
	}
	var m struct {
		ID    string
		Alarm alarm.Alarm
	}
	if err := json.Unmarshal(body, &m); err != nil || m.Alarm.NextAction == "" || req.Method != http.MethodPost {
		r.t.Errorf("message %s: %v", body, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	name := m.ID + " " + string(m.Alarm.Code)
	if r.refusing > 0 {
		r.refusing--
		r.refused = append(r.refused, name)
		w.Header().Set("Location", "http://127.0.0.1:1/") // must not be followed
		w.WriteHeader(http.StatusTemporaryRedirect)
		return
	}
	r.accepted = append(r.accepted, name)
	w.WriteHeader(http.StatusNoContent)
}

func (r *receiver) count() (refused, accepted int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.refused), len(r.accepted)
}

// notifier makes one with the defaults of the settings.
func notifier(t testing.TB, pool *pgxpool.Pool, change func(*alarm.Settings, *alarm.Deps)) *alarm.Notifier {
	t.Helper()
	set, deps := config.Defaults[alarm.Settings](), alarm.Deps{Log: slog.New(slog.DiscardHandler), BaseURL: "https://sale.example.com", Shop: "Stampede"}
	set.Hours = "00:00-24:00"
	if change != nil {
		change(&set, &deps)
	}
	n, err := alarm.NewNotifier(pool, set, deps)
	require.NoError(t, err)
	return n
}

// notify runs a notifier until stop or the end of the test.
func (r *receiver) notify(pool *pgxpool.Pool, change ...func(*alarm.Notifier)) (stop func()) {
	r.t.Helper()
	n := notifier(r.t, pool, func(s *alarm.Settings, _ *alarm.Deps) { s.Webhook = alarm.Webhook{URL: r.URL, Secret: secret} })
	alarm.Hurry(n, 20*time.Millisecond, 10*time.Millisecond)
	for _, c := range change {
		c(n)
	}
	return pgtest.Work(r.t, n.Run)
}

// Refused at first, then accepted; posted once by two instances; posted again when
// it returns, but not while it continues or after an acknowledgement.
func TestEachIncidentIsPostedOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	r := newReceiver(t, 3)
	raise(t, pool, letter, "inventory-release-closed", "out of memory")
	stop := r.notify(pool)
	pgtest.Eventually(t, 30*time.Second, func() bool { _, accepted := r.count(); return accepted == 1 }, "the alarm is accepted")
	refused, _ := r.count()
	require.Equal(t, "refused", refused, 3)
	pgtest.Eventually(t, 30*time.Second, func() bool { return untold(t, pool) == 0 }, "the acceptance is stored")
	stop()

	// Another process continues where it stopped, together with a third.
	r.notify(pool)
	r.notify(pool)
	raise(t, pool, letter, "inventory-release-closed", "") // the same incident
	raise(t, pool, slow, "refund 1", "")
	pgtest.Eventually(t, 30*time.Second, func() bool { _, accepted := r.count(); return accepted == 2 }, "the other alarm is accepted")

	for _, sql := range []string{
		`UPDATE platform.alarms SET last_seen = clock_timestamp() - interval '2 hours'`,
		// This one is acknowledged, and also too old.
		`INSERT INTO platform.alarms (code, subject, severity, next_action, opened_at) VALUES ('hold-stuck', 'item 1', 'critical', 'x', now() - interval '25 hours')`,
	} {
		pgtest.Exec(t, pool, sql)
	}
	raise(t, pool, slow, "refund 1", "")
	pgtest.Eventually(t, 30*time.Second, func() bool { _, accepted := r.count(); return accepted == 3 }, "the returned alarm is accepted")
	raise(t, pool, failed, "refund 2", "")
	pgtest.Eventually(t, 30*time.Second, func() bool { _, accepted := r.count(); return accepted == 4 }, "the last alarm is accepted")
	r.mu.Lock()
	defer r.mu.Unlock()
	if first, third := r.accepted[0], r.accepted[2]; first != "1-1 test-letter" || !strings.HasSuffix(third, "-2 test-slow") {
		t.Errorf("accepted %v", r.accepted)
	}
	told := map[string]bool{}
	for _, m := range r.accepted {
		require.Equal(t, m+" was posted before", told[m], false)
		told[m] = true
	}
}

// A receiver that is down does not block raising, and after some attempts that is an
// alarm itself, which is posted when the receiver is back.
func TestReceiverThatDoesNotAnswerIsAnAlarm(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	r := newReceiver(t, 6)
	raise(t, pool, tooFew, "item 1", "")
	r.notify(pool)
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(list(t, pool, alarm.Filter{Code: alarm.WebhookFailing.Code})) == 1 }, "the alarm about the webhook")
	pgtest.Eventually(t, 30*time.Second, func() bool { _, accepted := r.count(); return accepted == 2 }, "both are posted eventually")
}

// A hanging receiver does not get one incident after the other: after five posts the
// notifier pauses, and when the receiver answers again every incident is posted.
func TestHangingReceiverPausesPosts(t *testing.T) {
	t.Parallel()
	const incidents, timeout, pause = 12, 50 * time.Millisecond, 100 * time.Millisecond
	pool := pgtest.DB(t)
	r := newReceiver(t, 0)
	r.hangs = make(chan struct{})
	for i := range incidents {
		raise(t, pool, letter, "consumer-"+strconv.Itoa(i), "hangs")
	}
	began := time.Now()
	r.notify(pool, func(n *alarm.Notifier) {
		alarm.Hurry(n, pause, 5*time.Millisecond)
		alarm.Impatient(n, alarm.Webhook{URL: r.URL, Secret: secret}, timeout)
	})
	pgtest.Eventually(t, 30*time.Second, func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.asked >= 7 }, "two more posts after the first five")
	// There is a pause between the fifth and the sixth post, and another one after that.
	if took, least := time.Since(began), 5*timeout+2*6*pause; took < least {
		t.Errorf("a hanging receiver got seven posts within %s, want at least %s", took, least)
	}
	close(r.hangs)
	pgtest.Eventually(t, 30*time.Second, func() bool { _, accepted := r.count(); return accepted >= incidents }, "every incident is posted")
}

// A process that dies between its claim and the receiver's answer leaves the
// incident to the others; an alarm acknowledged meanwhile is not posted.
func TestClaimOfADeadProcessRunsOut(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	r := newReceiver(t, 0)
	raise(t, pool, tooFew, "item 1", "")
	raise(t, pool, tooFew, "item 2", "")
	const claimed = 300 * time.Millisecond
	began := time.Now()
	pgtest.Exec(t, pool, `INSERT INTO platform.alarm_messages (alarm_id, incident, address, saying, claim, due_at, tried_at)
		SELECT id, incident, 'webhook', 'open', gen_random_uuid(), clock_timestamp() + $1, clock_timestamp() FROM platform.alarms`, claimed)
	_, _, err := alarm.Acknowledge(t.Context(), pool, list(t, pool, alarm.Filter{})[0].ID, "Li")
	require.NoError(t, err)
	r.notify(pool)
	pgtest.Eventually(t, 30*time.Second, func() bool { _, accepted := r.count(); return accepted >= 1 }, "the alarm is posted")
	if took := time.Since(began); took < claimed {
		t.Errorf("posted after %s although another process had claimed it", took)
	}
	pgtest.Eventually(t, 30*time.Second, func() bool { return untold(t, pool) < 2 }, "the post is marked")
	_, accepted := r.count()
	require.Equal(t, "posted, and the acknowledged one not", fmt.Sprint(accepted, untold(t, pool)), "1 1")
}

// untold counts the alarms that are not marked as posted, which they are only after
// the receiver has accepted them.
func untold(t testing.TB, pool *pgxpool.Pool) int {
	t.Helper()
	return pgtest.Read[int](t, pool, `SELECT count(*) FROM platform.alarms a WHERE NOT EXISTS (
		SELECT FROM platform.alarm_messages m WHERE m.alarm_id = a.id AND m.incident = a.incident AND m.said <> '')`)
}

func TestWebhookSettings(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{
		"https://ops.example.com/alarms": true, "http://127.0.0.1:9000/": true, "http://[::1]:9000": true, "http://localhost/x": true,
		"http://10.0.0.1/": false, "http://localhost.example.com/": false, "ftp://127.0.0.1/": false, "https://": false, "": false,
		"https://user:pass@ops.example.com/": false, "//ops.example.com": false,
	} {
		require.Equal(t, url, (alarm.Webhook{URL: url, Secret: secret}).Check() == nil, ok)
	}
	if (alarm.Webhook{}).Check() != nil || (alarm.Webhook{URL: "https://ops.example.com/", Secret: "short"}).Check() == nil {
		t.Error("the secret is not checked")
	}
}

// A receiver that repeats the path which it does not know leaks no secret of the URL: the alarm about it is for viewers too.
func TestAnswerOfAReceiverRepeatsNoSecret(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "Cannot POST "+r.URL.String(), http.StatusNotFound)
	}))
	t.Cleanup(echo.Close)
	n := notifier(t, pool, func(s *alarm.Settings, _ *alarm.Deps) {
		s.URL, s.Secret = echo.URL+"/hooks/planted-1?token=planted-2", secret
	})
	got := n.Test(t.Context(), 0)[0]
	if strings.Contains(got.Answer, "planted") || got.OK {
		t.Errorf("the answer is %+v", got)
	}
	alarm.Hurry(n, time.Millisecond, time.Millisecond)
	raise(t, pool, tooFew, "item 1", "")
	pgtest.Work(t, n.Run)
	pgtest.Eventually(t, 30*time.Second, func() bool { return len(raised(t, pool, alarm.WebhookFailing)) == 1 }, "the alarm")
	detail := raised(t, pool, alarm.WebhookFailing)[0].Detail
	if !strings.Contains(detail, "answered 404") || strings.Contains(detail, "planted") {
		t.Errorf("the alarm says %s", detail)
	}
}
