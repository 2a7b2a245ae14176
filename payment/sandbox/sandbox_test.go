package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/payment/provider"
	"stampede/payment/providertest"
	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

var secret = []byte("a secret that only tests know, 32+")

// bundle is a bank on a real socket and its client.
type bundle struct {
	client *Client
	db     *pgxpool.Pool
	url    string
	stop   func() // stops the worker and waits for it
}

// testConfig is fast: back-offs of milliseconds, immediate refunds.
func testConfig() Config {
	cfg := DefaultConfig()
	cfg.Merchant, cfg.Secret = "shop-1", secret
	cfg.CallbackBackoff, cfg.RefundDelay, cfg.Poll = 5*time.Millisecond, 10*time.Millisecond, 20*time.Millisecond
	return cfg
}

func setup(t *testing.T, cfg Config) *bundle {
	t.Helper()
	return setupOn(t, pgtest.DB(t), cfg)
}

func setupOn(t *testing.T, db *pgxpool.Pool, cfg Config) *bundle {
	t.Helper()
	mux := chi.NewRouter()
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	cfg.PublicURL = srv.URL
	bank := New(cfg, Deps{DB: db, Clock: clock.System{}, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()})
	bank.Routes(mux)
	stop := pgtest.Work(t, bank.Workers()[0].Run)

	ccfg := DefaultClientConfig()
	ccfg.Merchant, ccfg.Secret, ccfg.BankURL, ccfg.Backoff = cfg.Merchant, cfg.Secret, srv.URL, time.Millisecond
	client := NewClient(ccfg, clock.System{})
	t.Cleanup(client.CloseIdleConnections)
	return &bundle{client: client, db: db, url: srv.URL, stop: stop}
}

// payAs is a shopper's client: JSON to the pay URL.
func payAs(payURL string, in payRequest) (status int, out Payment, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return 0, out, err
	}
	resp, err := http.Post(payURL, "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, out, err
	}
	defer func() { _ = resp.Body.Close() }()
	defer http.DefaultClient.CloseIdleConnections()
	err = json.NewDecoder(resp.Body).Decode(&out)
	return resp.StatusCode, out, err
}

func pay(payURL string) error {
	status, out, err := payAs(payURL, payRequest{})
	if err != nil {
		return err
	}
	if status != http.StatusOK || out.Status != StatusCaptured {
		return fmt.Errorf("not paid: %d %s", status, out.Status)
	}
	return nil
}

func TestConformance(t *testing.T) {
	t.Parallel()
	w := setup(t, testConfig())
	providertest.Run(t, func(t *testing.T) providertest.Subject {
		t.Helper()
		return providertest.Subject{
			Provider: w.client, Currency: "CNY", Pay: func(h provider.Handoff) error { return pay(h.URL) },
			Pass: func(d time.Duration) { // brings the expiry nearer: the bank's clock is Postgres'
				if _, err := w.db.Exec(t.Context(), `UPDATE sandbox.payments SET expires_at = expires_at - $1::interval`, d); err != nil {
					t.Error(err)
				}
			},
			Backdate: func(no ids.ID, d time.Duration) { // as sandboxtest.Backdate, which imports this package
				for _, table := range []string{`payments SET captured_at = captured_at`, `refunds SET updated_at = updated_at`} {
					if _, err := w.db.Exec(t.Context(), `UPDATE sandbox.`+table+` - $2::interval WHERE payment_no = $1`, no.String(), d); err != nil {
						t.Error(err)
					}
				}
			},
		}
	})
}
