package payment

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"stampede/payment/sandbox"
	"stampede/payment/sandbox/sandboxtest"
	"stampede/platform/base/clock"
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
func (s *bundle) openBank() (*gate, *sandbox.Client) {
	s.t.Helper()
	g := &gate{}
	bank := sandboxtest.OpenBehind(s.t, s.db, func(bank http.Handler) http.Handler {
		g.Handler = bank
		return g
	})
	bank.Speak(s.t)
	s.bankAt = bank.URL
	return g, s.clientOf("sandbox", bank.URL)
}

func (s *bundle) clientOf(name, bankURL string) *sandbox.Client {
	s.t.Helper()
	cfg := sandbox.DefaultClientConfig()
	cfg.Name, cfg.Merchant, cfg.Secret, cfg.BankURL = name, sandboxtest.Merchant, []byte(sandboxtest.Secret), bankURL
	cfg.Backoff, cfg.BreakerDelay, cfg.BreakerFailures = time.Millisecond, time.Millisecond, 1000
	c := sandbox.NewClient(cfg, clock.System{})
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
