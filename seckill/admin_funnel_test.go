package seckill

import (
	"bufio"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stampede/platform/base/clock"
	"stampede/platform/watch/tally"
	"stampede/platform/workshop/require"
)

// A followed funnel sends what is counted while it is followed, and ends with the
// server.
func TestFollowedFunnelSendsChangesAndEndsWithTheServer(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.publish(-time.Minute)
	board := tally.New(d.DB, clock.System{}, slog.New(slog.DiscardHandler))
	server := httptest.NewServer(d.rt)
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/v1/admin/items/"+s.item+"/funnel/live", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+d.tokens["viewer"])
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	for counted := false; lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var v struct {
			Orders map[string]int64
			Stock  int32
		}
		if err := json.Unmarshal([]byte(data), &v); err != nil || v.Stock != 10 {
			t.Fatalf("%q: %v", data, err)
		}
		switch {
		case v.Orders["created"] == 3:
			require.NoError(t, d.svc.EndStreams(t.Context()))
		case !counted:
			counted = true
			board.Count(s.stockItem(t, false).ID, "orders", "created", 3)
			require.NoError(t, board.Fold(t.Context()))
		}
	}
	if lines.Err() != nil || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%v, %s", lines.Err(), resp.Header.Get("Content-Type"))
	}
}

// The sum has each item's share, and a curve has only what its span and step ask for.
func TestSessionFunnelHasItemsAndCurve(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.publish(-time.Minute)
	board := tally.New(d.DB, clock.System{}, slog.New(slog.DiscardHandler))
	board.Count(s.stockItem(t, false).ID, "answers", "sold-out", 5)
	board.Mark(s.stockItem(t, false).ID, "emptied", time.Now())
	require.NoError(t, board.Fold(t.Context()))
	for query, points := range map[string]int{"": 0, "?step=60": 1, "?step=1&until=2020-01-01T00:00:00Z": 0} {
		for _, of := range []string{"sessions/" + s.session, "activities/" + s.activity} {
			r := d.as("viewer", http.MethodGet, "/api/v1/admin/"+of+"/funnel"+query, nil)
			curve, _ := r.body["curve"].([]any)
			items, _ := r.body["items"].([]any)
			if r.status != 200 || r.body["attempts"] != 5.0 || len(curve) != points || len(items) != 1 || r.body["emptied_at"] == nil ||
				items[0].(map[string]any)["counts"].(map[string]any)["answers"].(map[string]any)["sold-out"] != 5.0 {
				t.Errorf("%s%s: %d %s", of, query, r.status, r.raw)
			}
		}
	}
	made := d.as("viewer", http.MethodGet, "/api/v1/admin/sessions/"+s.session+"/report", nil)
	if orders, _ := made.body["orders"].(map[string]any); made.status != 200 || orders["attempts"] != 5.0 || len(made.body["curve"].([]any)) != 1 || len(made.body["items"].([]any)) != 1 {
		t.Errorf("report: %d %s", made.status, made.raw)
	}
	d.as("viewer", http.MethodGet, "/api/v1/admin/sessions/"+s.item+"99/report", nil).want(t, "report of no session", 404, "")
	d.as("viewer", http.MethodGet, "/api/v1/admin/items/"+s.item+"/funnel?step=7", nil).want(t, "an odd step", 422, "")
}
