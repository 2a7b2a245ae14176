package payment

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/require"
)

// aFloodOfForgedCallbacks: the alarm names the provider and the address, Postgres gets
// one row of the watch and none per callback, and it is over when the flood is.
func aFloodOfForgedCallbacks(t *testing.T, s *bundle) {
	svc := s.instance(options{}, s.client)
	rt := httpx.NewRouter(s.tokens, slog.New(slog.DiscardHandler), "test", prometheus.NewRegistry())
	svc.Routes(rt)
	forge := func(address string) {
		t.Helper()
		r := httptest.NewRequest(http.MethodPost, "/api/v1/payments/sandbox/notify", strings.NewReader("{}"))
		r.RemoteAddr = address + ":4711"
		w := httptest.NewRecorder()
		if rt.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
			t.Fatalf("answered %d, want 401", w.Code)
		}
	}
	probe := svc.Probes()[0]
	look := func() []alarm.Finding {
		t.Helper()
		found, err := probe.Look(t.Context())
		require.NoError(t, err)
		return found
	}
	forge("198.51.100.7")
	for range forgedMost - 2 {
		forge("203.0.113.9")
	}
	if found := look(); len(found) != 0 {
		t.Fatalf("one below the bound: %+v", found)
	}
	forge("203.0.113.9")
	found := look()
	if len(found) != 1 || found[0].Subject != "provider sandbox" || !strings.HasPrefix(found[0].Detail, "30 callbacks") ||
		!strings.HasSuffix(found[0].Detail, "29 of them from 203.0.113.9.") {
		t.Fatalf("found %+v", found)
	}
	if s.alarms(string(alarmForged.Code), "provider sandbox") != 0 {
		t.Error("a callback wrote the alarm")
	}
	probe.Every = 5 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- alarm.NewWatch(s.db, slog.New(slog.DiscardHandler), probe).Run(ctx) }()
	s.until("the alarm", func() bool { return s.alarms(string(alarmForged.Code), "provider sandbox") == 1 })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if late := svc.forged.floods(time.Now().Add(2 * forgedWindow)); len(late) != 0 {
		t.Errorf("still found after two quiet minutes: %+v", late)
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
	if w := f.seen["wechat"][0]; len(w.from) != forgedAddresses || w.count != 600 {
		t.Errorf("a window holds %d addresses of %d callbacks", len(w.from), w.count)
	}
}

// TestCallbacksAreDocumented: they are plain handlers, which huma does not
// document automatically.
func TestCallbacksAreDocumented(t *testing.T) {
	t.Parallel()
	tokens := auth.NewTokens([]byte(strings.Repeat("k1", 16)), time.Now)
	rt := httpx.NewRouter(tokens, slog.New(slog.DiscardHandler), "test", prometheus.NewRegistry())
	s := &callbacks{gateway: new(gateway)}
	s.routes(rt)
	paths := rt.API.Huma.OpenAPI().Paths
	for _, url := range []string{s.notifyURL("{provider}"), s.refundNotifyURL("{provider}")} {
		item := paths[url]
		if item == nil || item.Post == nil {
			t.Errorf("POST %s, a path given to providers, is not documented", url)
			continue
		}
		for _, status := range []string{"200", "400", "401", "404", "503"} {
			if item.Post.Responses[status] == nil {
				t.Errorf("POST %s: no answer %s", url, status)
			}
		}
		if len(item.Post.Parameters) != 1 || item.Post.RequestBody == nil || len(item.Post.Security) != 0 {
			t.Errorf("POST %s: %+v", url, item.Post)
		}
	}
}
