package funnel

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
)

// A report has the counts and alarms of its session's time, however many alarms came
// after it, as JSON or as a page in the reader's language.
func TestReportOfASession(t *testing.T) {
	t.Parallel()
	d := setup(t)
	s := d.Publish(time.Hour)
	d.SQL(`UPDATE seckill.sessions SET opens_at = now() - interval '3 days', closes_at = now() - interval '3 days' + interval '1 hour'`)
	d.SQL(`INSERT INTO platform.tally_totals (subject, counts) VALUES ($1::bigint, '{"answers":{"queued":10,"sold-out":90},"orders":{"created":10,"paid":8}}')`, s.Item)
	alarms := `INSERT INTO platform.alarms (code, subject, severity, next_action, opened_at, last_seen)
		SELECT $1, 'n ' || n, 'warning', 'Wait.', now() - $2::interval, now() - $3::interval FROM generate_series(1, $4::int) AS n`
	d.SQL(alarms, "of-its-time", "3 days", "70 hours", 2)
	d.SQL(alarms, "over-before", "4 days", "90 hours", 1)
	d.SQL(alarms, "much-later", "1 hour", "0 s", maxAlarms+1)

	path := "/api/v1/admin/sessions/" + s.Session + "/report"
	r := d.As(auth.Viewer, http.MethodGet, path, nil)
	orders, _ := r.Doc["orders"].(map[string]any)
	if r.Status != http.StatusOK || orders["attempts"] != 100.0 || orders["created"] != 10.0 || orders["paid"] != 8.0 {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
	list, _ := r.Doc["alarms"].([]any)
	if len(list) != 2 || list[0].(map[string]any)["code"] != "of-its-time" {
		t.Errorf("alarms %v", list)
	}
	page, err := d.svc.report(t.Context(), 1<<40)
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
