package payment

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/payment/sandbox"
	"stampede/platform/base/clock"
	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/require"
)

// gate is in front of the bank's addresses, so that a test can make the bank
// unreachable, or lose its answers.
type gate struct {
	http.Handler
	shut, mute atomic.Bool
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.shut.Load() {
		panic(http.ErrAbortHandler)
	}
	if g.mute.Load() {
		g.Handler.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	g.Handler.ServeHTTP(w, r)
}

// recorder keeps the callbacks that arrive and may lose them in transit.
type recorder struct {
	http.Handler
	lose atomic.Bool // answer nothing, forward nothing

	mu   sync.Mutex
	came []recorded
}

// recorded is one callback as the bank sent it.
type recorded struct {
	path   string
	header http.Header
	body   []byte
}

func (d *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "notify") {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		d.mu.Lock()
		d.came = append(d.came, recorded{r.URL.Path, r.Header.Clone(), body})
		d.mu.Unlock()
		if d.lose.Load() {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	d.Handler.ServeHTTP(w, r)
}

// callbacks returns the callbacks received so far.
func (d *recorder) callbacks() []recorded {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.came)
}

// openBank serves a bank on its own socket, with its worker, on the shop's
// database.
func (s *bundle) openBank(o options) (*gate, *sandbox.Client) {
	s.t.Helper()
	cfg := sandbox.DefaultConfig()
	cfg.Merchant, cfg.Secret = merchantNo, bankSecret
	cfg.CallbackBackoff, cfg.RefundDelay, cfg.Poll = 10*time.Millisecond, 5*time.Millisecond, 20*time.Millisecond
	if o.bank != nil {
		o.bank(&cfg)
	}
	g := &gate{}
	srv := httptest.NewServer(g)
	s.t.Cleanup(srv.Close)
	cfg.PublicURL = srv.URL
	bank, err := sandbox.New(cfg, sandbox.Deps{DB: s.db, Clock: clock.System{}, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()})
	require.NoError(s.t, err)
	rt := httpx.NewRouter(s.tokens, slog.New(slog.DiscardHandler), "bank", prometheus.NewRegistry())
	bank.Routes(rt.Mux)
	g.Handler = rt
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = bank.Workers()[0].Run(ctx)
	}()
	s.t.Cleanup(func() { cancel(); <-done })
	s.bankAt = srv.URL
	return g, s.clientOf("sandbox", srv.URL)
}

func (s *bundle) clientOf(name, bankURL string) *sandbox.Client {
	s.t.Helper()
	cfg := sandbox.DefaultClientConfig()
	cfg.Name, cfg.Merchant, cfg.Secret, cfg.BankURL = name, merchantNo, bankSecret, bankURL
	cfg.Backoff, cfg.BreakerDelay, cfg.BreakerFailures = time.Millisecond, time.Millisecond, 1000
	c, err := sandbox.NewClient(cfg, clock.System{})
	require.NoError(s.t, err)
	s.t.Cleanup(c.CloseIdleConnections)
	return c
}

// payAt acts as a shopper at the bank's page.
func (s *bundle) payAt(payURL string, behaviour sandbox.Behaviour) {
	s.t.Helper()
	a, err := s.tryPost(0, payURL, fmt.Sprintf(`{"behaviour":%q}`, behaviour))
	if err != nil || a.status != http.StatusOK || a.text("status") != "captured" {
		s.t.Fatalf("pay: %+v, %v", a, err)
	}
}
