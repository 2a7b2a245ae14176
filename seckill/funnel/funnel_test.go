package funnel

import (
	"bufio"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
	"stampede/platform/watch/tally"
	"stampede/platform/workshop/require"
)

// TestFunnel follows two units through the funnel.
func TestFunnel(t *testing.T) {
	t.Parallel()
	d := setup(t)
	s := d.Publish(-time.Minute)
	path := "/api/v1/admin/items/" + s.Item + "/funnel"
	r := d.Do(http.StatusOK, http.MethodGet, path, nil)
	if books := r.Doc["books"].(map[string]any); r.Doc["loaded"] != false || books["total"] != 10.0 || books["available"] != 10.0 || books["difference"] != 0.0 {
		t.Errorf("before the load: %s", r.Raw)
	}
	require.NoError(t, d.Stock.Load(t.Context(), s.StockItem(t, false).ID))
	require.NoError(t, d.Stock.Reserve(t.Context(), s.StockItem(t, false), 1, []inventory.Attempt{{User: 5, No: ids.NewFor(5), Quantity: 1}, {User: 6, No: ids.NewFor(6), Quantity: 1}}, &inventory.Decision{}))
	r = d.Do(http.StatusOK, http.MethodGet, path, nil)
	books := r.Doc["books"].(map[string]any)
	if r.Doc["loaded"] != true || r.Doc["epoch"] != 1.0 || r.Doc["queued"] != 2.0 || r.Doc["attempts"] != 0.0 ||
		books["remaining"] != 8.0 || books["in_flight"] != 2.0 || books["difference"] != 0.0 {
		t.Errorf("with two units on their way: %s", r.Raw)
	}
	for _, missing := range []string{"items/99999/funnel", "items/99999/funnel/live", "sessions/99999/funnel", "activities/99999/funnel"} {
		if r := d.As("viewer", http.MethodGet, "/api/v1/admin/"+missing, nil); r.Status != 404 {
			t.Errorf("%s: %d %s", missing, r.Status, r.Raw)
		}
	}
}

// A followed funnel sends what is counted while it is followed, and ends with the
// server.
func TestFollowedFunnelSendsChangesAndEndsWithTheServer(t *testing.T) {
	t.Parallel()
	d := setup(t)
	s := d.Publish(-time.Minute)
	board := tally.New(d.DB, clock.System{}, slog.New(slog.DiscardHandler))
	server := httptest.NewServer(d.Router)
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/v1/admin/items/"+s.Item+"/funnel/live", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+d.Tokens["viewer"])
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
			board.Count(s.StockItem(t, false).ID, "orders", "created", 3)
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
	d := setup(t)
	s := d.Publish(-time.Minute)
	board := tally.New(d.DB, clock.System{}, slog.New(slog.DiscardHandler))
	board.Count(s.StockItem(t, false).ID, "answers", "sold-out", 5)
	board.Mark(s.StockItem(t, false).ID, "emptied", time.Now())
	require.NoError(t, board.Fold(t.Context()))
	for query, points := range map[string]int{"": 0, "?step=60": 1, "?step=1&until=2020-01-01T00:00:00Z": 0} {
		for _, of := range []string{"sessions/" + s.Session, "activities/" + s.Activity} {
			r := d.As("viewer", http.MethodGet, "/api/v1/admin/"+of+"/funnel"+query, nil)
			curve, _ := r.Doc["curve"].([]any)
			items, _ := r.Doc["items"].([]any)
			if r.Status != 200 || r.Doc["attempts"] != 5.0 || len(curve) != points || len(items) != 1 || r.Doc["emptied_at"] == nil ||
				items[0].(map[string]any)["counts"].(map[string]any)["answers"].(map[string]any)["sold-out"] != 5.0 {
				t.Errorf("%s%s: %d %s", of, query, r.Status, r.Raw)
			}
		}
	}
	made := d.As("viewer", http.MethodGet, "/api/v1/admin/sessions/"+s.Session+"/report", nil)
	if orders, _ := made.Doc["orders"].(map[string]any); made.Status != 200 || orders["attempts"] != 5.0 || len(made.Doc["curve"].([]any)) != 1 || len(made.Doc["items"].([]any)) != 1 {
		t.Errorf("report: %d %s", made.Status, made.Raw)
	}
	d.As("viewer", http.MethodGet, "/api/v1/admin/sessions/"+s.Item+"99/report", nil).Want(t, "report of no session", 404, "")
	d.As("viewer", http.MethodGet, "/api/v1/admin/items/"+s.Item+"/funnel?step=7", nil).Want(t, "an odd step", 422, "")
}
