// Package sandboxtest runs a sandbox bank on a real socket, for tests of the providers
// that it stands in for.
package sandboxtest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/payment/provider"
	"stampede/payment/providertest"
	"stampede/payment/sandbox"
	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
	"stampede/platform/edge/outbound"
	"stampede/platform/workshop/pgtest"
)

// Merchant is the number of the shop that Serve's bank has in its own protocol, and Secret
// what they share.
const (
	Merchant = "shop-1"
	Secret   = "a secret that only tests know, 32+"
)

// Bank is a bank on a socket of its own. It serves from Speak until the test ends.
type Bank struct {
	URL  string
	mux  *chi.Mux
	bank *sandbox.Bank
	db   *pgxpool.Pool
}

// Open makes a bank with books of its own.
func Open(t *testing.T) *Bank {
	t.Helper()
	return OpenBehind(t, pgtest.DB(t), func(bank http.Handler) http.Handler { return bank })
}

// OpenBehind makes a bank that has its books in db, behind what front makes of it. It is
// fast: back-offs of milliseconds, immediate refunds.
func OpenBehind(t *testing.T, db *pgxpool.Pool, front func(bank http.Handler) http.Handler) *Bank {
	t.Helper()
	b := &Bank{mux: chi.NewRouter(), db: db}
	srv := httptest.NewServer(front(b.mux))
	t.Cleanup(srv.Close)
	b.URL = srv.URL
	cfg := sandbox.DefaultConfig()
	cfg.Merchant, cfg.Secret, cfg.PublicURL = Merchant, []byte(Secret), srv.URL
	cfg.CallbackBackoff, cfg.RefundDelay, cfg.Poll = 5*time.Millisecond, 10*time.Millisecond, 20*time.Millisecond
	b.bank = sandbox.New(cfg, sandbox.Deps{DB: db, Clock: clock.System{}, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()})
	return b
}

// Speak serves the bank in its own protocol and in the dialects.
func (b *Bank) Speak(t *testing.T, dialects ...sandbox.Dialect) {
	t.Helper()
	for _, d := range dialects {
		b.bank.Speak(d)
	}
	b.bank.Routes(b.mux)
	pgtest.Work(t, b.bank.Workers()[0].Run)
}

// Subject is a provider for the conformance suite, whose company stands in front of the
// bank.
func (b *Bank) Subject(t *testing.T, p provider.Provider, currency string) providertest.Subject {
	t.Helper()
	return providertest.Subject{
		Provider: p, Currency: currency, Pay: Pay,
		Pass: func(d time.Duration) {
			b.exec(t, `UPDATE sandbox.payments SET expires_at = expires_at - $1::interval`, d)
		},
		Backdate: func(no ids.ID, d time.Duration) { b.Backdate(t, no, d) },
	}
}

func (b *Bank) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := b.db.Exec(t.Context(), sql, args...); err != nil {
		t.Error(err)
	}
}

// DisputesEnd waits until every chargeback that payments behave for has ended.
func (b *Bank) DisputesEnd(t *testing.T) {
	t.Helper()
	pgtest.Eventually(t, 30*time.Second, func() bool {
		open := true
		err := b.db.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM sandbox.payments WHERE behaviour LIKE 'chargeback%' AND dispute_ended_at IS NULL)`).Scan(&open)
		return err == nil && !open
	}, "the disputes have ended")
}

// Backdate moves what a payment and its refunds moved into the past.
func (b *Bank) Backdate(t *testing.T, no ids.ID, d time.Duration) {
	t.Helper()
	b.exec(t, `UPDATE sandbox.payments SET captured_at = captured_at - $2::interval, disputed_at = disputed_at - $2::interval,
		dispute_ended_at = dispute_ended_at - $2::interval WHERE payment_no = $1`, no.String(), d)
	b.exec(t, `UPDATE sandbox.refunds SET updated_at = updated_at - $2::interval, bounced_at = bounced_at - $2::interval WHERE payment_no = $1`, no.String(), d)
}

// Pay pays at the bank's page, which is where a handoff leads.
func Pay(h provider.Handoff) error {
	address, err := page(h)
	if err != nil {
		return err
	}
	return ask(outbound.Request{URL: address, Body: []byte(`{"action":"pay"}`), Type: "application/json"}, func(r outbound.Reply) error {
		if r.Status != http.StatusOK {
			return fmt.Errorf("not paid: status %d", r.Status)
		}
		return nil
	})
}

// Look opens the bank's page without paying.
func Look(h provider.Handoff) error {
	_, err := page(h)
	return err
}

// page follows a handoff to the bank's page.
func page(h provider.Handoff) (address string, err error) {
	address = h.URL + h.QR // one of them is set
	err = ask(outbound.Request{URL: address}, func(r outbound.Reply) error {
		switch r.Status {
		case http.StatusFound:
			address = r.Header.Get("Location")
		case http.StatusOK:
		default:
			return fmt.Errorf("the page has status %d", r.Status)
		}
		return nil
	})
	return address, err
}

// ask makes a shopper's request, which follows no redirect.
func ask(r outbound.Request, read func(outbound.Reply) error) error {
	shopper := outbound.New(outbound.Config{Peer: "bank", Direct: true, Timeout: 10 * time.Second, Attempts: 1, MaxBytes: 1 << 10})
	defer shopper.CloseIdleConnections()
	return shopper.Do(context.Background(), r, read)
}
