package message

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"stampede/order/orderevent"
	"stampede/platform/base/app"
	edgemail "stampede/platform/edge/mail"
	"stampede/platform/edge/sms"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/smtptest"
)

// withMail gives the shop a mail server.
func (b *bundle) withMail() *smtptest.Server {
	b.t.Helper()
	srv := smtptest.New(b.t, true)
	set := edgemail.Settings{SMTPURL: "smtps://" + smtptest.User + "@" + srv.Address, SMTPPassword: smtptest.Password, MailFrom: "好店 <no-reply@shop.example>"}
	c, err := edgemail.New(set, edgemail.Deps{Log: slog.New(slog.DiscardHandler), TLS: &tls.Config{RootCAs: srv.CA}}) //nolint:gosec // only its pool is used
	require.NoError(b.t, err)
	b.t.Cleanup(func() { require.NoError(b.t, c.Stop(b.t.Context())) })
	b.deps.Mail = c
	return srv
}

// addressed adds an account with an e-mail address, and a phone unless it is empty.
func (b *bundle) addressed(phone, email string) (user int64) {
	b.t.Helper()
	return pgtest.Read[int64](b.t, b.db, `INSERT INTO account.users (phone, email) VALUES (nullif($1, ''), $2) RETURNING id`, phone, email)
}

// read is the subject and the text of an e-mail.
func read(t testing.TB, m *mail.Message) (subject, text string) {
	t.Helper()
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	require.NoError(t, err)
	body, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, m.Body))
	require.NoError(t, err)
	return subject, strings.ReplaceAll(string(body), "\r\n", "\n")
}

// A reminder and a win reach a shopper who has no phone, once each and in both languages, through a mail server that breaks
// every second connection after it has taken the message; the repetition has the same id, so that it is shown once.
func TestMailReachesWhoHasNoPhone(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	srv := b.withMail()
	var calls atomic.Int64
	srv.Taken = func(conn net.Conn) error {
		if calls.Add(1)%2 == 1 {
			return conn.Close()
		}
		return nil
	}
	b.rule(func(r *Rules) { r.QuietUntil = r.QuietFrom })
	reader := map[string]int64{}
	for _, lang := range languages {
		user := b.addressed("", lang+"@example.com")
		reader[lang+"@example.com"] = user
		pgtest.Exec(t, b.db, `INSERT INTO notify.message_preferences (user_id, language) VALUES ($1, $2)`, user, lang)
		o := pending(user, time.Now().Add(time.Hour))
		b.happens(orderevent.SubjectCreated, o)
	}
	b.opens(5, 10*time.Minute, reader["en@example.com"], reader["zh@example.com"])
	require.NoError(t, b.remind(t.Context()))
	b.dueNow()
	b.drain()
	require.Equal(t, "rows", b.rows(), "reminder sent email e****@example.com 0, won sent email e****@example.com 0, "+
		"reminder sent email z****@example.com 0, won sent email z****@example.com 0")
	got := map[string]string{}
	seen := map[string]bool{}
	for _, m := range srv.Got() {
		id := m.Header.Get("Message-Id")
		if seen[id] {
			continue
		}
		seen[id] = true
		subject, text := read(t, m.Message)
		got[m.To+" "+m.Header.Get("List-Unsubscribe-Post")] = subject + "\n" + text
		if link := strings.Trim(m.Header.Get("List-Unsubscribe"), "<>"); link != "" {
			require.Contains(t, "text of an offer", text, link)
			// A mail program's button.
			path, form := strings.TrimPrefix(link, b.deps.BaseURL), strings.NewReader("List-Unsubscribe=One-Click")
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, form)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			b.router.Mux.ServeHTTP(w, r)
			require.Equal(t, "unsubscribed", w.Code, http.StatusOK)
		}
	}
	for key, wants := range map[string][]string{
		"en@example.com ": {"You got 手机: pay by", "\nYou got 手机, quantity 1. Pay ¥99.00 by", "https://shop.example/?order="},
		"zh@example.com ": {"抢购成功：请在", "\n恭喜您抢到手机，共1件。", "https://shop.example/?order="},
		"en@example.com List-Unsubscribe=One-Click": {"手机 opens at", "You have reserved", "No more of these e-mails: https://shop.example/messages/"},
		"zh@example.com List-Unsubscribe=One-Click": {"手机将于", "您预约的手机", "不再接收此类邮件：https://shop.example/messages/unsubscribe?t="},
	} {
		require.Contains(t, key, got[key], wants...)
	}
	require.Equal(t, "messages, and deliveries", []int{len(seen), len(srv.Got())}, []int{4, 8})
	wants := pgtest.Read[int](t, b.db, `SELECT count(*)::int FROM notify.message_preferences WHERE offers`)
	require.Equal(t, "who wants offers", wants, 0)
}

// SMS comes first; e-mail takes what SMS refuses, what the budget no longer pays for, and everything while the gateway is away.
func TestMailComesAfterSMS(t *testing.T) {
	t.Parallel()
	const (
		refused = "+8613800138001"
		poor    = "+8613800138002"
		away    = "+8613800138003"
		none    = "+8613800138004"
		awayToo = "+8613800138006"
	)
	b := setup(t, func(_ int, m sms.Message) int {
		return cmp.Or(map[string]int{
			refused: http.StatusUnprocessableEntity, away: http.StatusServiceUnavailable, awayToo: http.StatusServiceUnavailable,
		}[m.Phone], http.StatusOK)
	})
	srv := b.withMail()
	srv.Rcpt = func(to string) error {
		if strings.HasPrefix(to, "gone") {
			return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "unknown"}
		}
		return nil
	}
	for phone, email := range map[string]string{
		hangzhou: "li@example.com", refused: "wu@example.com", away: "he@example.com", none: "gone@example.com", "": "gone@example.com",
	} {
		b.happens(orderevent.SubjectCreated, pending(b.addressed(phone, email), time.Now().Add(time.Hour)))
	}
	b.drain()
	require.Equal(t, "won", pgtest.Read[string](t, b.db,
		`SELECT string_agg(concat_ws(' ', state, channel, recipient), ', ' ORDER BY state, channel, recipient) FROM notify.messages`),
		"dead email g****@example.com, sent email h****@example.com, sent email w****@example.com, sent sms 138****8000, sent sms 138****8004")

	// A reminder goes by e-mail while the gateway is away, and when the budget of SMS is used up.
	for budget, users := range [][]int64{{b.addressed(awayToo, "qi@example.com")}, {b.addressed(poor, "li@example.com"), b.user("+8613800138005")}} {
		b.rule(func(r *Rules) { r.Budget, r.QuietUntil = int64(budget), r.QuietFrom })
		b.opens(int64(5+budget), 10*time.Minute, users...)
		require.NoError(t, b.remind(t.Context()))
		b.dueNow()
		b.drain()
	}
	require.Equal(t, "reminders", pgtest.Read[string](t, b.db,
		`SELECT string_agg(concat_ws(' ', state, reason, channel), ', ' ORDER BY user_id) FROM notify.messages WHERE kind = 'reminder'`),
		"sent  email, sent  email, dropped budget used up sms")
}

// An operator writes the subject in the first line. A test goes to the operator's own address, and says what is wrong.
func TestOperatorWritesAnEmail(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	srv := b.withMail()
	operator := b.addressed("", "ops@example.com")
	const path = "/api/v1/admin/shopper-message-texts/paid/email/en"
	b.ask(7, "viewer", http.MethodGet, path, nil).Want(t, "built in", 200, "",
		`"built_in":true`, `Paid: {item}\n\n`, `"preview":"Paid: Phone 12 Pro\n\nWe have received`, `"parts":0`)
	b.ask(7, "admin", http.MethodPut, path, map[string]any{"body": "only a subject"}).Want(t, "no text", 422, "invalid", "body.body")
	b.ask(7, "admin", http.MethodPut, path, map[string]any{"body": "Thanks\nfor {item}", "template": "t"}).
		Want(t, "write", 200, "", `"preview":"Thanks\n\nfor Phone 12 Pro\n"`)
	b.ask(7, "operator", http.MethodPost, path+"/test", nil).Want(t, "no address", 409, "message-no-address")
	b.ask(operator, "operator", http.MethodPost, path+"/test", nil).Want(t, "test", 200, "")
	subject, text := read(t, srv.Got()[0].Message)
	require.Equal(t, "test", []string{subject, text}, []string{"Thanks", "for Phone 12 Pro\n"})
	b.ask(7, "viewer", http.MethodGet, "/api/v1/admin/shopper-message-rules", nil).Want(t, "channels", 200, "", `"available":["sms","email"]`)
}

// hanging lets a mail server hang with every e-mail until answer, and tells of the first.
func hanging(srv *smtptest.Server) (hangs <-chan struct{}, answer func()) {
	hung, answers := make(chan struct{}, 1), make(chan struct{})
	srv.Data = func(net.Conn) error {
		app.Kick(hung)
		<-answers
		return nil
	}
	return hung, sync.OnceFunc(func() { close(answers) })
}

// A message about an order goes out at once although the mail server hangs with the e-mails of offers, each for 20 s.
func TestOrdersDoNotWaitForOffers(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	srv := b.withMail()
	hangs, answer := hanging(srv)
	b.rule(func(r *Rules) { r.QuietUntil = r.QuietFrom })
	users := make([]int64, 2*sideBySide)
	for i := range users {
		users[i] = b.addressed("", strconv.Itoa(i)+"@example.com")
	}
	b.opens(5, 10*time.Minute, users...)
	require.NoError(t, b.remind(t.Context()))
	b.dueNow()
	sends(t, b.Service)
	t.Cleanup(answer)
	<-hangs
	b.happens(orderevent.SubjectCreated, pending(b.user(hangzhou), time.Now().Add(time.Hour)))
	pgtest.Eventually(t, 10*time.Second, func() bool { return b.count(sent) == 1 }, "the SMS about the order is sent")
}

// SMS about orders do not wait for e-mails about orders, each of which a hanging mail server holds for 20 s. An e-mail that
// the server refuses is not dead while the gateway is away, and one that both refuse is.
func TestSMSDoNotWaitForMail(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	srv := b.withMail()
	hangs, answer := hanging(srv)
	won := func(phone, email string) {
		b.happens(orderevent.SubjectCreated, pending(b.addressed(phone, email), time.Now().Add(time.Hour)))
	}
	for i := range 2 * sideBySide {
		won("", strconv.Itoa(i)+"@example.com")
	}
	term, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.lead(term, false) }()
	pgtest.Work(t, func(ctx context.Context) error { return b.lead(ctx, true) })
	t.Cleanup(answer)
	<-hangs
	end() // the lease is lost
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(15 * time.Second): // three times the 5 s of a note
		t.Fatal("the leader of SMS waits for an e-mail")
	}
	pgtest.Work(t, func(ctx context.Context) error { return b.lead(ctx, false) })
	won(hangzhou, "he@example.com")
	pgtest.Eventually(t, 10*time.Second, func() bool { return b.count(sent) == 1 }, "the SMS is sent")
	require.Equal(t, "channel", pgtest.Read[string](t, b.db, `SELECT channel FROM notify.messages WHERE state = 'sent'`), channelSMS)
	answer()
	pgtest.Eventually(t, 30*time.Second, func() bool { return b.count(sent) == 2*sideBySide+1 }, "the e-mails are sent")
	require.Equal(t, "attempts", pgtest.Read[int64](t, b.db, `SELECT sum(attempts) FROM notify.messages`), 2*sideBySide+1)
}

// What e-mail refuses is dead if SMS has refused it too. While the gateway is away it waits for both.
func TestMailRefusesWhatWaitsForSMS(t *testing.T) {
	t.Parallel()
	const refused, away = "+8613800138001", "+8613800138002"
	b := setup(t, func(_ int, m sms.Message) int {
		return map[string]int{refused: http.StatusUnprocessableEntity, away: http.StatusServiceUnavailable}[m.Phone]
	})
	srv := b.withMail()
	srv.Rcpt = func(string) error {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "unknown"}
	}
	for _, phone := range []string{refused, away} {
		b.happens(orderevent.SubjectCreated, pending(b.addressed(phone, "gone@example.com"), time.Now().Add(time.Hour)))
	}
	states := func() string {
		return pgtest.Read[string](t, b.db, `SELECT string_agg(concat_ws(' ', state, channel, attempts, by_mail, others_away), ', ' ORDER BY user_id) FROM notify.messages`)
	}
	for i, want := range []string{"waiting sms 0 t f, waiting sms 0 t t", "dead email 1 f f, waiting email 1 f f"} {
		_, err := b.batch(t.Context(), lane{mail: i == 1})
		require.NoError(t, err)
		require.Equal(t, "messages", states(), want)
	}
}

// While messages about orders fill whole batches, offers leave them the provider's rate.
func TestOffersWaitForABacklogOfOrders(t *testing.T) {
	t.Parallel()
	const won = claimAtMost + claimAtMost/2
	b := setup(t, takes)
	b.rule(func(r *Rules) { r.QuietUntil = r.QuietFrom })
	var users []int64
	var all []orderevent.Order
	for i := range won {
		user := b.user("+86138001380" + strconv.Itoa(100+i))
		if users = append(users, user); i < claimAtMost/2 {
			users = append(users, b.user("+86139001390"+strconv.Itoa(100+i)))
		}
		all = append(all, pending(user, time.Now().Add(time.Hour)))
	}
	b.happens(orderevent.SubjectCreated, all...)
	b.opens(5, 10*time.Minute, users...)
	require.NoError(t, b.remind(t.Context()))
	b.dueNow()
	b.limit.SetLimit(300) // half a second, in which offers would come between
	backlog := new(atomic.Bool)
	backlog.Store(true) // the batch before was full
	for _, offers := range []bool{false, true} {
		pgtest.Work(t, func(ctx context.Context) error { return b.sendLoop(ctx, lane{offers: offers}, backlog) })
	}
	pgtest.Eventually(t, 30*time.Second, func() bool { return b.count(waiting) == 0 }, "all are sent")
	for i, m := range b.gw.taken[:won] {
		if !strings.Contains(m.Text, "恭喜") {
			t.Fatalf("message %d of %d about orders is an offer: %s", i, won, m.Text)
		}
	}
}

// An address counts only where the server has its channel, and a phone only in a country that the shop sends to.
func TestOnlyTheServersChannelsReach(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	win := func(phone, email string) {
		b.happens(orderevent.SubjectCreated, pending(b.addressed(phone, email), time.Now().Add(time.Hour)))
		b.drain()
	}
	win("", "li@example.com") // there is no mail server yet
	b.withMail()
	b.deps.Reach = sms.Reach{china}
	win(london, "wu@example.com")
	b.deps.Sender = nil
	win(hangzhou, "he@example.com")
	require.Equal(t, "messages", b.rows(), "won sent email w****@example.com 0, won sent email h****@example.com 0")
}
