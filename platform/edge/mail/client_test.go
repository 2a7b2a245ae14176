package mail_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"go.uber.org/goleak"

	"stampede/platform/edge/mail"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/smtptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client returns a client of a server. A connection and a message take timeout at most.
func client(t *testing.T, srv *smtptest.Server, scheme string, timeout time.Duration, change ...func(*mail.Settings, *mail.Deps)) (*mail.Client, *strings.Builder) {
	t.Helper()
	log := &strings.Builder{}
	set := mail.Settings{
		SMTPURL: scheme + "://" + smtptest.User + "@" + srv.Address, SMTPPassword: smtptest.Password,
		MailFrom: "街角书店 <no-reply@shop.example>",
	}
	deps := mail.Deps{Log: slog.New(slog.NewTextHandler(log, nil)), TLS: &tls.Config{RootCAs: srv.CA}, Timeout: timeout} //nolint:gosec // only its pool is used
	for _, c := range change {
		c(&set, &deps)
	}
	c, err := mail.New(set, deps)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop(context.Background())) })
	return c, log
}

var message = mail.Message{
	ID: "0198f2c8-paid", To: "yan@example.com", Subject: "您的订单已支付：第 1 件商品，请留意发货通知与物流信息，感谢您的惠顾与支持",
	Text: "感谢您。\n.\n下一行。",
}

// A message arrives as it was written, over TLS of both kinds.
func TestMessageArrives(t *testing.T) {
	t.Parallel()
	for scheme, implicit := range map[string]bool{"smtps": true, "smtp": false} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			srv := smtptest.New(t, implicit)
			c, _ := client(t, srv, scheme, 20*time.Second)
			require.NoError(t, c.Send(t.Context(), message))
			got := srv.Got()[0]
			subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
			require.NoError(t, err)
			body, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, got.Body))
			require.NoError(t, err)
			from, err := got.Header.AddressList("From")
			require.NoError(t, err)
			for name, is := range map[string][2]string{
				"envelope": {got.From + " " + got.To, "no-reply@shop.example yan@example.com"},
				"from":     {from[0].Name, "街角书店"},
				"to":       {got.Header.Get("To"), "<yan@example.com>"},
				"subject":  {subject, message.Subject},
				"id":       {got.Header.Get("Message-Id"), "<0198f2c8-paid@shop.example>"},
				"text":     {string(body), "感谢您。\r\n.\r\n下一行。"},
			} {
				require.Equal(t, name, is[0], is[1])
			}
		})
	}
}

// A burst shares a few connections, and a new one replaces those that the server closed.
func TestBurstSharesConnections(t *testing.T) {
	t.Parallel()
	srv := smtptest.New(t, true)
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	srv.Data = func(conn net.Conn) error {
		mu.Lock()
		defer mu.Unlock()
		open[conn] = true
		return nil
	}
	c, _ := client(t, srv, "smtps", 20*time.Second)
	send := func(n int) {
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				m := message
				m.ID = fmt.Sprintf("burst-%d", i)
				if err := c.Send(t.Context(), m); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	send(120)
	first := srv.Sessions()
	if first < 1 || first > 5 {
		t.Errorf("%d connections for 120 messages, want 4 or 5", first)
	}
	mu.Lock()
	for conn := range open {
		_ = conn.Close()
	}
	mu.Unlock()
	send(8)
	require.Equal(t, "messages", len(srv.Got()), 128)
	if srv.Sessions() == first {
		t.Error("closed connections were used again")
	}
}

// Half of the recipients are refused: each message has its own result, and the connection
// goes on.
func TestRecipientsAreRefusedAlone(t *testing.T) {
	t.Parallel()
	srv := smtptest.New(t, true)
	srv.Rcpt = func(to string) error {
		switch {
		case strings.HasPrefix(to, "gone"):
			return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "<" + to + "> is unknown"}
		case strings.HasPrefix(to, "full"):
			return &smtp.SMTPError{Code: 452, EnhancedCode: smtp.EnhancedCode{4, 2, 2}, Message: "<" + to + "> is full"}
		}
		return nil
	}
	c, log := client(t, srv, "smtps", 20*time.Second)
	for i := range 12 {
		for to, want := range map[string]error{
			"gone%d@example.com": mail.ErrRefused, "here%d@example.com": nil, "full%d@example.com": mail.ErrUnavailable,
		} {
			if to[0] == 'f' && i > 2 {
				continue // five failures in a row would open the breaker
			}
			m := message
			m.To = fmt.Sprintf(to, i)
			err := c.Send(t.Context(), m)
			require.ErrorIs(t, err, want)
			if err != nil && strings.Contains(err.Error(), "example.com") {
				t.Errorf("the error names the recipient: %v", err)
			}
		}
	}
	require.Equal(t, "messages", len(srv.Got()), 12)
	require.Equal(t, "connections", srv.Sessions(), 1)
	require.Contains(t, "log", log.String(), "550", "5.1.1")
	if strings.Contains(log.String(), "example.com") {
		t.Errorf("the log names recipients:\n%s", log)
	}
}

// A server that fails in other ways is unavailable for the one message; nothing waits longer
// than the time-out, and the next message takes another connection.
func TestServerFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		data func(hang <-chan struct{}, conn net.Conn) error
		want error
	}{
		"hangs after DATA":   {func(hang <-chan struct{}, _ net.Conn) error { <-hang; return errors.New("late") }, mail.ErrUnavailable},
		"closes mid-session": {func(_ <-chan struct{}, conn net.Conn) error { return conn.Close() }, mail.ErrUnavailable},
		"is too busy": {func(<-chan struct{}, net.Conn) error {
			return &smtp.SMTPError{Code: 421, Message: "too many messages"}
		}, mail.ErrUnavailable},
		"calls it spam": {func(<-chan struct{}, net.Conn) error {
			return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 7, 1}, Message: "spam"}
		}, mail.ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := smtptest.New(t, true)
			hang := make(chan struct{})
			t.Cleanup(func() { close(hang) })
			var calls atomic.Int64
			srv.Data = func(conn net.Conn) error {
				if calls.Add(1) > 1 {
					return nil
				}
				return c.data(hang, conn)
			}
			sender, _ := client(t, srv, "smtps", 2*time.Second)
			require.ErrorIs(t, sender.Send(t.Context(), message), c.want)
			require.NoError(t, sender.Send(t.Context(), message))
		})
	}
}

// A caller that gives up does not wait for a server that hangs.
func TestCallerGivesUp(t *testing.T) {
	t.Parallel()
	srv := smtptest.New(t, true)
	hang, ctx := make(chan struct{}), t.Context()
	ctx, cancel := context.WithCancel(ctx)
	srv.Data = func(net.Conn) error { cancel(); <-hang; return nil }
	t.Cleanup(func() { close(hang) })
	c, _ := client(t, srv, "smtps", time.Hour)
	require.ErrorIs(t, c.Send(ctx, message), mail.ErrUnavailable)
}

// Nothing is sent, the password least of all, to a server that is another one, that takes no
// TLS, or that does not know the password; and no error shows it.
func TestPasswordStaysSecret(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		scheme string
		change func(*mail.Settings, *mail.Deps)
		want   string
	}{
		"another certificate":             {"smtps", func(_ *mail.Settings, d *mail.Deps) { d.TLS = &tls.Config{RootCAs: x509.NewCertPool()} }, "certificate"}, //nolint:gosec // only its pool is used
		"another certificate by STARTTLS": {"smtp", func(_ *mail.Settings, d *mail.Deps) { d.TLS = &tls.Config{RootCAs: x509.NewCertPool()} }, "certificate"},  //nolint:gosec // only its pool is used
		"wrong password":                  {"smtps", func(s *mail.Settings, _ *mail.Deps) { s.SMTPPassword = "planted-password" }, "--smtp-password"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := smtptest.New(t, c.scheme == "smtps")
			sender, log := client(t, srv, c.scheme, 10*time.Second, c.change)
			err := sender.Send(t.Context(), message)
			require.ErrorIs(t, err, mail.ErrUnavailable)
			require.Contains(t, "log", log.String(), c.want)
			for _, secret := range []string{smtptest.Password, "planted-password", message.To} {
				if strings.Contains(log.String(), secret) || strings.Contains(err.Error(), secret) {
					t.Errorf("%q is in the log or the error: %v\n%s", secret, err, log)
				}
			}
			require.Equal(t, "messages", len(srv.Got()), 0)
		})
	}
}

// A server without TLS is used on loopback only.
func TestPlainServerElsewhereIsRefused(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	said := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = conn.Write([]byte("220 plain\r\n"))
		_, _ = conn.Read(make([]byte, 512))
		_, _ = conn.Write([]byte("250-plain\r\n250 AUTH PLAIN\r\n"))
		rest, _ := io.ReadAll(conn)
		said <- string(rest)
		_ = conn.Close()
	}()
	t.Cleanup(func() { _ = l.Close() })
	c, _ := client(t, &smtptest.Server{Address: l.Addr().String()}, "smtp", 5*time.Second)
	require.ErrorIs(t, c.Send(t.Context(), message), mail.ErrUnavailable)
	if got := <-said; strings.Contains(got, "AUTH") || strings.Contains(got, "MAIL") {
		t.Errorf("the client said %q without TLS", got)
	}
}

// No part of a message makes a header, a recipient or a command of its own.
func TestNothingIsInjected(t *testing.T) {
	t.Parallel()
	srv := smtptest.New(t, true)
	c, _ := client(t, srv, "smtps", 20*time.Second)
	for _, to := range []string{
		"", "yan", "yan@example.com\r\nBcc: eve@example.com", "yan@example.com, eve@example.com", "Yan <yan@example.com>",
		"yan@example.com> SIZE=1 <eve@example.com", "yan@example.com\r\nRCPT TO:<eve@example.com>",
	} {
		m := message
		m.To = to
		require.ErrorIs(t, c.Send(t.Context(), m), mail.ErrRefused)
	}
	m := mail.Message{
		ID: "1>\r\nBcc: eve@example.com", To: "yan@example.com", Subject: "Hello\r\nBcc: eve@example.com\r\n\r\nbody",
		Text: "text\r\n.\r\nMAIL FROM:<eve@example.com>\r\n",
	}
	require.NoError(t, c.Send(t.Context(), m))
	require.Equal(t, "messages", len(srv.Got()), 1)
	got := srv.Got()[0]
	require.Equal(t, "subject", got.Header.Get("Subject"), "Hello Bcc: eve@example.com body")
	if got.Header.Get("Bcc") != "" || !strings.HasSuffix(got.Header.Get("Message-Id"), "@shop.example>") {
		t.Errorf("headers %v", got.Header)
	}
}

// Without a server every message is refused for now, with the setting that is missing.
func TestWithoutServer(t *testing.T) {
	t.Parallel()
	c, err := mail.New(mail.Settings{}, mail.Deps{Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	err = c.Send(t.Context(), message)
	require.ErrorIs(t, err, mail.ErrUnavailable)
	require.Contains(t, "error", err.Error(), "--smtp-url")
}

// Which settings are refused, and what to do instead.
func TestSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, password, from, want string }{
		{"", "", "", ""},
		{"smtps://shop@shop.example@smtp.example.com", "p", "shop@shop.example", ""},
		{"smtp://127.0.0.1:25", "", "Shop <shop@shop.example>", ""},
		{"", "p", "", "--smtp-url"},
		{"https://smtp.example.com", "", "shop@shop.example", "--smtp-url must be like smtps://"},
		{"smtp.example.com:465", "", "shop@shop.example", "--smtp-url must be like smtps://"},
		{"smtps://shop:planted@smtp.example.com", "", "shop@shop.example", "give it with --smtp-password"},
		{"smtps://shop@smtp.example.com", "", "shop@shop.example", "give both or neither"},
		{"smtps://smtp.example.com", "p", "shop@shop.example", "give both or neither"},
		{"smtps://smtp.example.com", "", "", "--mail-from must be an address"},
		{"smtps://smtp.example.com", "", "shop", "--mail-from must be an address"},
	} {
		err := mail.Settings{SMTPURL: c.url, SMTPPassword: c.password, MailFrom: c.from}.Check()
		switch {
		case c.want == "":
			require.NoError(t, err)
		case err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "planted"):
			t.Errorf("%+v: %v", c, err)
		}
	}
}
