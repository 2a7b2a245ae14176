package funnel

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
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
		d.As("viewer", http.MethodGet, "/api/v1/admin/"+missing, nil).Want(t, missing, http.StatusNotFound, "")
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
	} else if item := made.Doc["items"].([]any)[0].(map[string]any); item["left"] != item["units"] || item["left"] == 0.0 {
		t.Errorf("units left of an item that nobody bought: %v", item)
	}
	d.As("viewer", http.MethodGet, "/api/v1/admin/sessions/"+s.Item+"99/report", nil).Want(t, "report of no session", 404, "")
	d.As("viewer", http.MethodGet, "/api/v1/admin/items/"+s.Item+"/funnel?step=7", nil).Want(t, "an odd step", 422, "")
}

// A report has the counts and alarms of its session's time, however many alarms came
// after it, as JSON or as a page in the reader's language.
func TestReportOfASession(t *testing.T) {
	t.Parallel()
	d := setup(t)
	s := d.Publish(time.Hour)
	d.SQL(`UPDATE seckill.sessions SET opens_at = now() - interval '3 days', closes_at = now() - interval '3 days' + interval '1 hour'`)
	d.SQL(`UPDATE seckill.activities SET payment_window_seconds = 60 * 3600`)
	d.SQL(`INSERT INTO platform.tally_totals (subject, counts) VALUES ($1::bigint, '{"answers":{"queued":10,"sold-out":90},"orders":{"created":10,"paid":8}}')`, s.Item)
	alarms := `INSERT INTO platform.alarms (code, subject, severity, next_action, opened_at, last_seen)
		SELECT $1, 'n ' || n, 'warning', 'Wait.', now() - $2::interval, now() - $3::interval FROM generate_series(1, $4::int) AS n`
	d.SQL(alarms, "of-its-time", "3 days", "70 hours", 2)
	d.SQL(alarms, "while-paying", "23 hours", "22 hours", 1)
	d.SQL(alarms, "over-before", "4 days", "90 hours", 1)
	d.SQL(alarms, "much-later", "1 hour", "0 s", maxAlarms+1)

	path := "/api/v1/admin/sessions/" + s.Session + "/report"
	r := d.As(auth.Viewer, http.MethodGet, path, nil)
	orders, _ := r.Doc["orders"].(map[string]any)
	r.Want(t, "a report", http.StatusOK, "")
	require.Equal(t, "orders", []any{orders["attempts"], orders["created"], orders["paid"]}, []any{100.0, 10.0, 8.0})
	list, _ := r.Doc["alarms"].([]any)
	if len(list) != 3 || list[0].(map[string]any)["code"] != "while-paying" || list[1].(map[string]any)["code"] != "of-its-time" {
		t.Errorf("alarms %v", list)
	}
	d.SQL(`UPDATE seckill.sessions SET closes_at = now() + interval '1 hour'`)
	require.Contains(t, "of a session that is open", d.raw(path), `"not-over"`)
	d.SQL(`UPDATE seckill.activities SET status = 'terminated', updated_at = now() - interval '1 minute'`)
	raw := d.raw(path)
	require.Contains(t, "of one that was terminated", raw, `"not-proved"`)
	require.Equal(t, "it was still open", strings.Contains(raw, `"not-over"`), false)
	page, err := d.svc.Report(t.Context(), 1<<40)
	if err == nil {
		t.Errorf("a report of no session: %+v", page)
	}
	for language, word := range map[string]string{"en": "Sale report", "zh-CN": "场次报告"} {
		raw := d.raw(path, "Accept", "text/html", "Accept-Language", language)
		if !strings.HasPrefix(raw, "<!doctype html>") || !strings.Contains(raw, word) {
			t.Errorf("%s: %.200s", language, raw)
		}
	}
}
