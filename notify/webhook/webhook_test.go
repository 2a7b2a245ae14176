package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/notify/webhook/internal/webhookdb"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/outbound"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

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
	stop := pgtest.Work(t, b.deliver)
	require.Equal(t, "the event taken", orderNo(r.await(t, 1)[0]), before.String())
	pgtest.Eventually(t, 30*time.Second, func() bool { return b.alarms(alarmFailing) == 1 }, "the alarm")
	stop()
	require.Contains(t, "its detail", pgtest.Read[string](t, b.db, `SELECT detail FROM platform.alarms`), "cannot be read")
	require.Equal(t, "events taken", len(r.taken), 1)

	// One that waits, because that release's courier set it aside, holds back what happened to the same thing alone: the
	// others come first, without a pause.
	pgtest.Exec(t, b.db, `INSERT INTO notify.webhook_waiting SELECT 1, place, 0, CASE place WHEN 1 THEN 'two' ELSE 'one' END, 1, now() FROM generate_series(1, 3) place`)
	pgtest.Exec(t, b.db, `UPDATE notify.webhooks SET place = 3, number = 1`)
	more, err := b.round(t.Context(), 1)
	require.Equal(t, "more, and why not", fmt.Sprint(more, err), "true <nil>")
	more, err = b.round(t.Context(), 1)
	require.Equal(t, "more, and why not", fmt.Sprint(more, errors.As(err, new(*unreadableError))), "false true")
	require.Equal(t, "events taken", len(r.taken), 2)
	require.Equal(t, "waiting", pgtest.Read[string](t, b.db, `SELECT string_agg(place::text, ',' ORDER BY place) FROM notify.webhook_waiting`), "2,3")
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
