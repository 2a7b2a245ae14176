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
	"stampede/payment/sandbox"
	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
	"stampede/platform/edge/outbound"
	"stampede/platform/workshop/pgtest"
)

// Bank is a bank that serves until the test ends.
type Bank struct {
	URL string
	db  *pgxpool.Pool
}

// Open opens a bank that speaks the dialects which speak returns for its address.
func Open(t *testing.T, speak func(url string) []sandbox.Dialect) *Bank {
	t.Helper()
	b := &Bank{db: pgtest.DB(t)}
	mux := chi.NewRouter()
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	b.URL = srv.URL
	cfg := sandbox.DefaultConfig()
	cfg.Merchant, cfg.Secret, cfg.PublicURL = "shop-1", []byte("a secret that only tests know, 32+"), srv.URL
	cfg.CallbackBackoff, cfg.RefundDelay, cfg.Poll = 5*time.Millisecond, 10*time.Millisecond, 20*time.Millisecond
	bank, err := sandbox.New(cfg, sandbox.Deps{DB: b.db, Clock: clock.System{}, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range speak(srv.URL) {
		bank.Speak(d)
	}
	bank.Routes(mux)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = bank.Workers()[0].Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return b
}

// Pass brings every payment's expiry nearer, as if d had passed.
func (b *Bank) Pass(t *testing.T, d time.Duration) {
	t.Helper()
	if _, err := b.db.Exec(t.Context(), `UPDATE sandbox.payments SET expires_at = expires_at - $1::interval`, d); err != nil {
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
	Backdate(t, b.db, no, d)
}

// Backdate is Bank.Backdate for a bank that has its books in db.
func Backdate(t *testing.T, db *pgxpool.Pool, no ids.ID, d time.Duration) {
	t.Helper()
	for _, sql := range []string{
		`UPDATE sandbox.payments SET captured_at = captured_at - $2::interval, disputed_at = disputed_at - $2::interval, dispute_ended_at = dispute_ended_at - $2::interval WHERE payment_no = $1`,
		`UPDATE sandbox.refunds SET updated_at = updated_at - $2::interval, bounced_at = bounced_at - $2::interval WHERE payment_no = $1`,
	} {
		if _, err := db.Exec(t.Context(), sql, no.String(), d); err != nil {
			t.Error(err)
		}
	}
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
