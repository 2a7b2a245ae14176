package payment

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/edge/httpx"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/require"
)

// aFloodOfForgedCallbacks: the watch finds the provider and the address, no callback costs
// Postgres a row, and it is over when the flood is.
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
	if probe.Alarm != alarmForged || s.alarms(string(alarmForged.Code), "provider sandbox") != 0 {
		t.Error("a callback wrote the alarm, which is the watch's")
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
