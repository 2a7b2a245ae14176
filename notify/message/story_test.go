package message

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/notify/message/internal/messagedb"
	"stampede/order/disputeevent"
	"stampede/order/orderevent"
	"stampede/payment/paymentevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

// A reminder, a win, a warning, a payment, a parcel, a refund, an answer and returned units arrive at the gateway's stand-in, in both
// languages, each once, although it fails half of the time, every event comes twice, and two instances share the work.
func TestWholeStoryArrivesOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, halfOfTheTime())
	b.rule(func(r *Rules) { r.QuietUntil = r.QuietFrom })
	users, phones := []int64{b.user(hangzhou), b.user(london)}, []string{hangzhou, london}
	other := b.instance()
	stream := bustest.Open(t)
	// The durables are shared: the first instance's handlers serve both.
	stop, err := stream.Subscribe(t.Context(), b.Subscriptions(), func(_ context.Context, _ string, m bus.Msg, cause error) error {
		t.Errorf("%s is dead: %v", m.Subject, cause)
		return nil
	})
	require.NoError(t, err)
	defer stop(context.Background())
	for _, s := range []*Service{b.Service, other} {
		sends(t, s)
	}
	publish := func(subject string, payload []byte) {
		t.Helper()
		for range 2 { // as another message, so that the stream does not drop it
			require.NoError(t, stream.Publish(t.Context(), subject, ids.New(), payload))
		}
	}
	encoded := func(v any) []byte {
		raw, err := json.Marshal(v)
		require.NoError(t, err)
		return raw
	}
	all := 0
	arrives := func(what string) {
		t.Helper()
		all++
		pgtest.Eventually(t, 30*time.Second, func() bool { return b.count(sent) == all*len(users) && b.count(waiting) == 0 }, what+" arrives")
	}

	b.opens(5, 10*time.Minute, users...)
	for _, s := range []*Service{b.Service, other} {
		require.NoError(t, s.remind(t.Context()))
	}
	b.dueNow()
	arrives("the reminder")
	deadline := time.Now().Add(time.Hour).Truncate(time.Minute)
	var placed []orderevent.Order
	for _, user := range users {
		placed = append(placed, pending(user, deadline))
	}
	publish(orderevent.SubjectCreated, event(t, "", placed...).Data)
	arrives("the win")
	b.rule(func(r *Rules) { r.Kinds[2].AheadMinutes = 29 })
	for i := range placed {
		placed[i].PayDeadline = time.Now().Add(28 * time.Minute)
		placed[i].CreatedAt = time.Now().Add(-time.Hour)
	}
	slices.SortFunc(placed, func(a, b orderevent.Order) int { return slices.Compare(a.No[:], b.No[:]) })
	placed[1].PayDeadline = placed[0].PayDeadline
	b.orders.unpaid = placed
	for range 2 {
		require.NoError(t, b.warn(t.Context()))
	}
	arrives("the warning")
	for i := range placed {
		placed[i].Status, placed[i].PaidAt = orderevent.StatusPaid, time.Now()
	}
	publish(orderevent.SubjectPaid, event(t, "", placed...).Data)
	arrives("the payment")
	for i := range placed {
		placed[i].Handover, b.orders.parcels[placed[i].No] = orderevent.HandoverShipped, fmt.Sprintf("SF%d", placed[i].UserID)
	}
	publish(orderevent.SubjectShipped, event(t, "", placed...).Data)
	publish(orderevent.SubjectCompleted, event(t, "", placed...).Data)
	arrives("the parcel")
	for _, o := range placed {
		publish(paymentevent.SubjectRefunded, encoded(paymentevent.Refunded{Refund: paymentevent.Refund{RefundNo: ids.New(), OrderNo: o.No, UserID: o.UserID, Amount: 100, Currency: "CNY"}}))
	}
	arrives("the refund")
	for _, o := range placed {
		publish(disputeevent.SubjectAnswered, encoded(disputeevent.Changed{DisputeNo: ids.New(), OrderNo: o.No, UserID: o.UserID, Version: 2}))
	}
	arrives("the answer")
	for _, user := range users {
		b.ask(user, "shopper", http.MethodPut, "/api/v1/items/5/units-back", nil).Want(t, "ask", 200, "", `"asked":true`)
	}
	publish(seckillevent.SubjectItemUnitsBack, encoded(seckillevent.Items{Items: []seckillevent.Item{{ItemID: 5, Left: 1}}}))
	arrives("the news of returned units")

	for i, phone := range phones {
		texts := b.gw.to(phone)
		if len(texts) != len(Kinds) {
			t.Errorf("%s got %d texts: %s", phone, len(texts), strings.Join(texts, "\n"))
		}
		signature := []string{"【好店】", "[好店] "}[i]
		for _, said := range texts {
			if !strings.HasPrefix(said, signature) || strings.ContainsAny(said, "{}") {
				t.Errorf("%s got %q", phone, said)
			}
		}
		all := strings.Join(texts, "\n")
		require.Contains(t, phone, all, fmt.Sprintf("SF%d", users[i]))
		require.Contains(t, phone, all, [][]string{{" 拒收请回复R", "已发货，顺丰速运，", "退款¥1.00"}, {"Reply STOP to opt out", "is on its way with SF Express", "refunded ¥1.00"}}[i]...)
		require.Equal(t, "ways out", strings.Count(all, []string{"回复R", "STOP"}[i]), 2)
	}
	for id, tries := range b.gw.tries {
		if tries != 2 {
			t.Errorf("%s was sent %d times", id, tries)
		}
	}
}

// A process that is killed between the sending and the note sends its messages once more, under the same ids, which the
// gateway takes once.
func TestKilledSenderRepeatsAtMostOnceUnderTheSameID(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	b.happens(orderevent.SubjectCreated, pending(b.user(hangzhou), time.Now().Add(time.Hour)), pending(b.user(london), time.Now().Add(time.Hour)))
	killed := b.instance()
	rows, err := messagedb.New(b.db).Claim(t.Context(), messagedb.ClaimParams{ClaimedFor: claimFor, Most: claimAtMost})
	require.NoError(t, err)
	work, err := killed.prepareBatch(t.Context(), rows, lane{})
	require.NoError(t, err)
	for i := range rows {
		var out outcome
		m, ready := work.decide(&rows[i], &out)
		require.Equal(t, "ready", ready, true)
		work.send(t.Context(), &rows[i], m, &out)
	}
	n, err := b.batch(t.Context(), lane{})
	require.NoError(t, err)
	require.Equal(t, "claimed while the claim lasts", n, 0)
	b.dueNow() // the claim has ended
	b.drain()
	require.Equal(t, "taken and calls", []int{len(b.gw.taken), b.gw.calls}, []int{2, 4})
}

// Two instances that both believe to lead share the rows: none is sent twice.
func TestTwoSendersShareTheRows(t *testing.T) {
	t.Parallel()
	const messages = 450
	b := setup(t, takes)
	user := b.user(hangzhou)
	var placed []orderevent.Order
	for range messages {
		placed = append(placed, pending(user, time.Now().Add(time.Hour)))
	}
	b.happens(orderevent.SubjectCreated, placed...)
	var senders sync.WaitGroup
	for _, s := range []*Service{b.Service, b.instance()} {
		senders.Go(func() {
			for {
				if n, err := s.batch(t.Context(), lane{}); n == 0 || err != nil {
					if err != nil {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	senders.Wait()
	require.Equal(t, "sent, taken and calls", []int{b.count(sent), len(b.gw.taken), b.gw.calls}, []int{messages, messages, messages})
}

// Offers keep the quiet hours: a reminder that would fall into them comes before, one that waits too long is dropped, and
// a win comes at any time.
func TestQuietHours(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	midnight := time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)
	r := defaultRules()
	from, until := r.reminding(midnight)
	require.Equal(t, "reminders of midnight", []time.Time{from, until}, []time.Time{midnight.Add(-135 * time.Minute), midnight.Add(-2 * time.Hour)})
	from, until = r.reminding(midnight.Add(20 * time.Hour))
	require.Equal(t, "reminders of 20:00", []time.Time{from, until}, []time.Time{midnight.Add(19*time.Hour + 45*time.Minute), midnight.Add(20*time.Hour - time.Minute)})
	for clock, quiet := range map[time.Duration]bool{0: true, 7*time.Hour + 59*time.Minute: true, 8 * time.Hour: false, 22*time.Hour - 1: false, 22 * time.Hour: true} {
		_, _, is := r.quiet(midnight.Add(clock))
		require.Equal(t, "quiet at "+clock.String(), is, quiet)
	}
	now := time.Now().UTC()
	b.rule(func(r *Rules) {
		r.QuietFrom, r.QuietUntil = now.Add(-time.Hour).Format("15:04"), now.Add(time.Hour).Format("15:04")
	})
	user := b.user(hangzhou)
	insertOffer := func(about string, expire time.Time) {
		made, err := b.prepare(t.Context(), defaultRules(), UnitsBack, []draft{{user: user, about: about, expire: expire}})
		require.NoError(t, err)
		require.NoError(t, insert(t.Context(), b.db, made))
	}
	insertOffer("soon", now.Add(10*time.Minute))
	insertOffer("later", now.Add(3*time.Hour))
	b.happens(orderevent.SubjectCreated, pending(user, now.Add(time.Hour)))
	for _, offers := range []bool{false, true} {
		_, err := b.batch(t.Context(), lane{offers: offers})
		require.NoError(t, err)
	}
	require.Equal(t, "dropped, waiting and sent", []any{b.reasons(dropped), b.count(waiting), b.count(sent)}, []any{"units_back: quiet hours", 1, 1})
	require.Equal(t, "waits for the end", pgtest.Read[bool](t, b.db, `SELECT next_try > now() + interval '50 minutes' AND attempts = 0 FROM notify.messages WHERE state = 'waiting'`), true)
}

// A shopper who has unsubscribed, by the page's switch or by the link, gets the win and no reminder; a forged link and a
// look at the page change nothing.
func TestUnsubscribedGetsNoReminderButTheWin(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	b.rule(func(r *Rules) { r.QuietUntil = r.QuietFrom })
	bySwitch, byLink, subscribed := b.user(hangzhou), b.user(london), b.user("+8613800138001")
	const me = "/api/v1/me/messages"
	b.ask(bySwitch, "shopper", http.MethodGet, me, nil).Want(t, "default", 200, "", `"offers":true`, `"language":""`)
	b.ask(bySwitch, "shopper", http.MethodPut, me, map[string]any{"offers": false, "language": "en"}).Want(t, "switch", 200, "", `"offers":false`)
	b.ask(bySwitch, "shopper", http.MethodPut, me, map[string]any{"offers": false, "language": "fr"}).Want(t, "no such language", 422, "invalid")
	link := strings.TrimPrefix(b.unsubscribeLink(byLink), b.deps.BaseURL)
	forged := strings.Replace(link, "?t=A", "?t=B", 1)
	for _, c := range []struct {
		method, path string
		status       int
	}{{http.MethodGet, link, 200}, {http.MethodPost, forged, 404}, {http.MethodGet, forged, 404}, {http.MethodPost, unsubscribePath, 404}} {
		b.ask(byLink, "shopper", c.method, c.path, nil).Want(t, c.method+c.path, c.status, "")
	}
	b.ask(byLink, "shopper", http.MethodGet, me, nil).Want(t, "not yet", 200, "", `"offers":true`)
	b.ask(byLink, "shopper", http.MethodPost, link, nil).Want(t, "one click", 200, "")
	b.ask(byLink, "shopper", http.MethodGet, me, nil).Want(t, "unsubscribed", 200, "", `"offers":false`)
	b.opens(5, 10*time.Minute, bySwitch, byLink, subscribed)
	require.NoError(t, b.remind(t.Context()))
	b.dueNow()
	b.drain()
	require.Equal(t, "dropped", b.reasons(dropped), "reminder: unsubscribed, reminder: unsubscribed")
	b.happens(orderevent.SubjectCreated, pending(bySwitch, time.Now().Add(time.Hour)), pending(byLink, time.Now().Add(time.Hour)))
	b.drain()
	require.Equal(t, "texts", []int{len(b.gw.to(hangzhou)), len(b.gw.to(london)), len(b.gw.to("+8613800138001"))}, []int{1, 1, 1})
	require.Contains(t, "the chosen language", b.gw.to(hangzhou)[0], "You got ")
}

// A session that is moved gets new reminders with its time, and its old reminders are dropped; one that opens in less than a
// minute is left to the crowd.
func TestReminderFollowsItsSession(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	b.rule(func(r *Rules) { r.QuietUntil = r.QuietFrom })
	user := b.user(hangzhou)
	o := b.opens(5, 10*time.Minute, user)
	second := o
	second.ItemID = 6
	b.sale.openings, b.sale.reserved[6] = append(b.sale.openings, second), []int64{user}
	b.opens(7, 50*time.Second, user)
	for range 2 {
		require.NoError(t, b.remind(t.Context()))
	}
	require.Equal(t, "one for the session", b.count(waiting), 1)
	spread := pgtest.Read[bool](t, b.db, `SELECT next_try < $1 AND expires_at = $1 FROM notify.messages`, o.OpensAt.Add(-calm))
	require.Equal(t, "is sent before the last minute", spread, true)
	for i := range 2 {
		b.sale.openings[i].OpensAt = o.OpensAt.Add(2 * time.Minute)
	}
	require.NoError(t, b.remind(t.Context()))
	b.dueNow()
	b.drain()
	require.Equal(t, "sent and dropped", []any{b.count(sent), b.reasons(dropped)}, []any{1, "reminder: the session was moved or ended"})
}

// An erased user gets nothing more, and no row names the recipient.
func TestErasedUserGetsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	user := b.user(hangzhou)
	b.happens(orderevent.SubjectCreated, pending(user, time.Now().Add(time.Hour)))
	b.drain()
	b.opens(5, time.Hour)
	b.ask(user, "shopper", http.MethodPut, "/api/v1/items/5/units-back", nil).Want(t, "ask", 200, "")
	b.ask(user, "shopper", http.MethodPut, "/api/v1/me/messages", map[string]any{"offers": false, "language": "en"}).Want(t, "prefer", 200, "")
	b.happens(orderevent.SubjectCreated, pending(user, time.Now().Add(time.Hour)))
	tx := pgtest.Begin(t, b.db)
	require.NoError(t, b.Forget(t.Context(), tx, user))
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, "dropped", b.reasons(dropped), "won: erased")
	left := pgtest.Read[int](t, b.db, `SELECT count(*) FILTER (WHERE recipient <> '')::int + (SELECT count(*) FROM notify.units_back_asks)::int + (SELECT count(*) FROM notify.message_preferences)::int FROM notify.messages`)
	require.Equal(t, "what names the user", left, 0)
}

// While the gateway is away nothing is lost, and what dies of it can be sent again while it is true.
func TestDeadMessagesAreRedriven(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	b.gw.verdict = func(int, sms.Message) int { return http.StatusServiceUnavailable }
	user := b.user(hangzhou)
	o := pending(user, time.Now().Add(time.Hour))
	b.happens(orderevent.SubjectCreated, o)
	o.Status, o.PaidAt = orderevent.StatusPaid, time.Now()
	other := pending(user, time.Now().Add(time.Hour))
	b.happens(orderevent.SubjectPaid, o)
	b.happens(orderevent.SubjectCreated, other)
	_, err := b.batch(t.Context(), lane{})
	require.NoError(t, err)
	require.Contains(t, "waiting", b.reasons(waiting), "paid: ", "won: ", "503")
	row, at := &messagedb.ClaimRow{Attempts: 6, ExpiresAt: time.Now().Add(time.Minute)}, time.Now()
	for last := (&work{Service: &Service{backoff: backoff}}); at.Before(row.ExpiresAt); {
		next := last.later(row, at)
		if next.Sub(at) < backoff[0] {
			t.Fatalf("tried again after %v", next.Sub(at))
		}
		at = next
	}
	pgtest.Exec(t, b.db, `UPDATE notify.messages SET expires_at = now() - interval '1 second' WHERE state = 'waiting'`)
	b.dueNow()
	b.drain()
	require.Equal(t, "dead", b.reasons(dead), "paid: too late, won: too late")
	list := b.ask(7, "viewer", http.MethodGet, "/api/v1/admin/shopper-messages?state=dead", nil).Want(t, "list", 200, "", `"kind":"won"`, `"kind":"paid"`)
	if strings.Contains(string(list.Raw), "13800138000") {
		t.Errorf("the list has a phone: %s", list.Raw)
	}
	b.ask(7, "viewer", http.MethodGet, "/api/v1/admin/shopper-messages?order_no="+other.No.String(), nil).Want(t, "of an order", 200, "", `"kind":"won"`)
	b.gw.verdict = takes
	paid := pgtest.Read[ids.ID](t, b.db, `SELECT id FROM notify.messages WHERE kind = 'paid'`)
	won := pgtest.Read[ids.ID](t, b.db, `SELECT id FROM notify.messages WHERE kind = 'won' AND state = 'dead'`)
	const path = "/api/v1/admin/shopper-messages/"
	b.ask(7, "viewer", http.MethodPost, path+paid.String()+"/redrive", nil).Want(t, "a viewer", 403, "forbidden")
	b.ask(7, "operator", http.MethodPost, path+paid.String()+"/redrive", nil).Want(t, "the payment", 200, "", `"redriven":1`)
	b.ask(7, "operator", http.MethodPost, path+won.String()+"/redrive", nil).Want(t, "a deadline that is over", 404, "not-found")
	b.ask(7, "operator", http.MethodPost, path+"redrive", map[string]any{"kind": "won"}).Want(t, "all", 200, "", `"redriven":0`)
	b.drain()
	require.Equal(t, "sent under its id", b.gw.taken[0].ID, paid.String())
	b.ask(7, "viewer", http.MethodGet, path+"days", nil).Want(t, "days", 200, "", `"dead":1`, `"sent":1`)
}

// Messages that have lost their worth do not use up the thousand of a request, so that newer ones are sent again.
func TestRedriveReachesWhatIsStillTrue(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	user := b.user(hangzhou)
	for range redriveAtMost {
		b.expired(user)
	}
	b.happens(orderevent.SubjectCreated, pending(user, time.Now().Add(time.Hour)))
	pgtest.Exec(t, b.db, `UPDATE notify.messages SET state = 'dead'`)
	b.ask(7, "operator", http.MethodPost, "/api/v1/admin/shopper-messages/redrive", map[string]any{"kind": "won"}).Want(t, "all", 200, "", `"redriven":1`)
}

// expired adds a message about a win whose deadline is over.
func (b *bundle) expired(user int64) {
	b.t.Helper()
	pgtest.Exec(b.t, b.db, `INSERT INTO notify.messages (id, kind, about, user_id, order_no, offer, facts, next_try, expires_at)
		VALUES ($1::uuid, 'won', $1::uuid::text, $2, $1::uuid, false, '{}', now(), now() - interval '1 minute')`, ids.New(), user)
}

// An order's events come out of order when the first had to be tried again: after the payment, and after the order was
// closed, nothing asks for it.
func TestLateWinDoesNotAskForAPaymentThatWasMade(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	user := b.user(hangzhou)
	paid, closed := pending(user, time.Now().Add(time.Hour)), pending(user, time.Now().Add(time.Hour))
	late := []orderevent.Order{paid, closed}
	paid.Status, paid.PaidAt, closed.Status = orderevent.StatusPaid, time.Now(), orderevent.StatusClosed
	b.happens(orderevent.SubjectPaid, paid)
	b.happens(orderevent.SubjectClosed, closed)
	b.happens(orderevent.SubjectCreated, late...)
	b.drain()
	require.Equal(t, "sent and dropped", []any{b.count(sent), b.reasons(dropped)}, []any{1, "won: the order was paid or closed, won: the order was paid or closed"})
	require.Contains(t, "the one text", b.gw.to(hangzhou)[0], "已付款成功")
}

// A sender that is held up until its claim has ended leaves the messages to who has claimed them since.
func TestSenderThatIsHeldUpSendsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	other := b.instance()
	b.happens(orderevent.SubjectCreated, pending(b.user(hangzhou), time.Now().Add(time.Hour)), pending(b.user(london), time.Now().Add(time.Hour)))
	contacts := b.deps.Contacts
	b.claim = 300 * time.Millisecond
	b.deps.Contacts = func(ctx context.Context, users []int64) (map[int64]account.Contact, error) {
		pgtest.Eventually(t, 30*time.Second, func() bool {
			n, err := other.batch(ctx, lane{})
			require.NoError(t, err)
			return n == 2
		}, "the other sends")
		return contacts(ctx, users)
	}
	_, err := b.batch(t.Context(), lane{})
	require.NoError(t, err)
	require.Equal(t, "sent and calls", []int{b.count(sent), b.gw.calls}, []int{2, 2})
}

// signal is a log that says when something was logged.
type signal chan struct{}

func (s signal) Write(line []byte) (int, error) {
	select {
	case s <- struct{}{}:
	default:
	}
	return len(line), nil
}

// What was sent is noted when Postgres is back, and not sent again.
func TestOutageAfterTheSending(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	logged := make(signal, 1)
	b.deps.Log = slog.New(slog.NewTextHandler(logged, nil))
	b.happens(orderevent.SubjectCreated, pending(b.user(hangzhou), time.Now().Add(time.Hour)))
	pgtest.Exec(t, b.db, `ALTER TABLE notify.message_days RENAME TO away`)
	done := make(chan error)
	go func() {
		_, err := b.batch(t.Context(), lane{})
		done <- err
	}()
	<-logged
	pgtest.Exec(t, b.db, `ALTER TABLE notify.away RENAME TO message_days`)
	require.NoError(t, <-done)
	require.Equal(t, "rows, and SMS", []any{b.rows(), len(b.gw.to(hangzhou))}, []any{"won sent sms 138****8000 1", 1})
}

// A message whose claim ends between two channels is given back, not sent by the second, which another process may be
// doing.
func TestNoCallBeginsAfterTheClaim(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	b.happens(orderevent.SubjectCreated, pending(b.user(hangzhou), time.Now().Add(time.Hour)))
	rows, err := messagedb.New(b.db).Claim(t.Context(), messagedb.ClaimParams{ClaimedFor: claimFor, Most: claimAtMost})
	require.NoError(t, err)
	work, err := b.prepareBatch(t.Context(), rows, lane{})
	require.NoError(t, err)
	var out outcome
	letters, _ := work.decide(&rows[0], &out)
	over, end := context.WithCancel(t.Context())
	end()
	work.send(over, &rows[0], letters, &out)
	require.Equal(t, "state, attempts and calls", []any{out.state, out.tried, b.gw.calls}, []any{waiting, int32(0), 0})
}

// What the gateway did not take is charged by no carrier: it does not use up the budget for the others.
func TestFailedAttemptsCostNoBudget(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	b.gw.verdict = func(int, sms.Message) int { return http.StatusServiceUnavailable }
	b.rule(func(r *Rules) { r.QuietUntil, r.Budget = r.QuietFrom, sideBySide })
	var users []int64
	for i := range 3 * sideBySide {
		users = append(users, b.user(fmt.Sprintf("+861380013%04d", i)))
	}
	b.opens(5, 10*time.Minute, users...)
	require.NoError(t, b.remind(t.Context()))
	b.dueNow()
	_, err := b.batch(t.Context(), lane{offers: true})
	require.NoError(t, err)
	require.Equal(t, "waiting and dropped", []any{b.count(waiting), b.reasons(dropped)}, []any{len(users), ""})
}

// TestMessagesAreListedByTheirIndex: a page of a rare kind is not searched for among all messages.
func TestMessagesAreListedByTheirIndex(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	cfg := b.db.Config().Copy()
	cfg.MaxConns, cfg.ConnConfig.RuntimeParams["plan_cache_mode"] = 1, "force_generic_plan" // the plan of a busy server
	one, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(one.Close)
	b.deps.DB = one
	pgtest.Exec(t, one, `INSERT INTO notify.messages (id, kind, state, about, user_id, order_no, offer, facts, next_try, expires_at)
		SELECT lpad(to_hex(n), 32, '0')::uuid, CASE WHEN n < 4 THEN 'dispute' ELSE 'paid' END, CASE WHEN n = 3 THEN 'dead' ELSE 'sent' END,
			n, 7, gen_random_uuid(), false, '{}', now(), now() FROM generate_series(1, 20003) n`)
	pgtest.Exec(t, one, `ANALYZE notify.messages`)
	for query, want := range map[string][]uint64{
		"limit=2": {0x4e23, 0x4e22}, "kind=dispute": {3, 2, 1}, "kind=dispute&state=sent": {2, 1}, "state=dead": {3}, "state=sent&limit=2": {0x4e23, 0x4e22},
	} {
		before := pgtest.RowsRead(t, one, "notify.messages")
		data := b.ask(7, "viewer", http.MethodGet, "/api/v1/admin/shopper-messages?"+query, nil).Want(t, query, 200, "").Doc["data"].([]any)
		var got []uint64
		for _, m := range data {
			n, err := strconv.ParseUint(m.(map[string]any)["id"].(string), 16, 64)
			require.NoError(t, err)
			got = append(got, n)
		}
		require.Equal(t, query, got, want)
		if n := pgtest.RowsRead(t, one, "notify.messages") - before; n > 100 {
			t.Errorf("%s: %d rows read", query, n)
		}
	}
}
