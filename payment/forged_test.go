package payment

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/order"
	"stampede/payment/provider"
	"stampede/payment/sandbox"
	"stampede/payment/sandbox/sandboxtest"
	"stampede/platform/base/clock"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/require"
)

// unbacked serves the callbacks of the sandbox bank without a database.
func unbacked(t *testing.T, log *slog.Logger) (*Service, *httpx.Router) {
	t.Helper()
	cfg := sandbox.DefaultClientConfig()
	cfg.Merchant, cfg.Secret, cfg.BankURL = merchantNo, []byte(sandboxtest.Secret), "http://127.0.0.1:1"
	s, err := New(DefaultConfig(), Deps{
		DB: new(pgxpool.Pool), Orders: new(order.Service), Plan: new(plan), Providers: []provider.Provider{sandbox.NewClient(cfg, clock.System{})},
		BaseURL: "http://127.0.0.1:1", Log: log, Metrics: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	rt := httpx.NewRouter(auth.NewTokens([]byte("key of the tests, 32 bytes or more"), time.Now), log, "test", prometheus.NewRegistry())
	s.Routes(rt)
	return s, rt
}

// TestAttackForgedCallbacksFillTheLog: a flood of callbacks that no provider signed
// leaves one warning a minute, reaches no store, and is found by the watch with its address.
func TestAttackForgedCallbacksFillTheLog(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	s, rt := unbacked(t, slog.New(slog.NewTextHandler(&logged, nil)))
	forge := func(times int, address string) {
		for range times {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/payments/sandbox/notify", strings.NewReader("{}"))
			r.RemoteAddr = address + ":4711"
			w := httptest.NewRecorder()
			if rt.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
	}
	probe := s.Probes()[0]
	forge(1, "198.51.100.7")
	forge(forgedMost-2, "203.0.113.9")
	if found, err := probe.Look(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("one below the bound: %+v, %v", found, err)
	}
	forge(1, "203.0.113.9")
	found, err := probe.Look(t.Context())
	if err != nil || probe.Alarm != alarmForged || len(found) != 1 || found[0].Subject != "provider sandbox" ||
		!strings.HasPrefix(found[0].Detail, "30 callbacks") || !strings.HasSuffix(found[0].Detail, "29 of them from 203.0.113.9.") {
		t.Errorf("found %+v, %v", found, err)
	}
	if n := strings.Count(logged.String(), "callback not accepted"); n == 0 || n > 2 { // 2 when a minute has ended
		t.Errorf("%d warnings:\n%.1000s", n, logged.String())
	}
}

// A flood that lasts is one incident across its windows, is warned of once in each,
// and costs bounded memory.
func TestFloodOfForgedCallbacksAcrossWindows(t *testing.T) {
	t.Parallel()
	f := forgeries{seen: map[string]*[2]forgedCount{}}
	start := time.Now()
	warned, address := 0, netip.MustParseAddr("2001:db8::")
	for second := range 180 {
		now := start.Add(time.Duration(second) * time.Second)
		for range 10 {
			address = address.Next()
			if f.note("wechat", address, now) {
				warned++
			}
		}
		if found := f.floods(now); (len(found) == 1) != (second >= 2) {
			t.Fatalf("second %d: %+v", second, found)
		}
	}
	require.Equal(t, "warnings in three minutes", warned, 3)
	if late := f.floods(start.Add(180*time.Second + 2*forgedWindow)); len(late) != 0 {
		t.Errorf("still found after two quiet minutes: %+v", late)
	}
	if w := f.seen["wechat"][0]; len(w.from) != forgedAddresses || w.count != 600 {
		t.Errorf("a window holds %d addresses of %d callbacks", len(w.from), w.count)
	}
}
