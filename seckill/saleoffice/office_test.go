package saleoffice

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"testing"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/officetest"
	"stampede/platform/workshop/require"
)

// desk is the office over an API that has one item. What it returns beside is the last body that the API got.
func desk(t *testing.T) (open func(path string, form url.Values, language string) string, got func() map[string]any) {
	t.Helper()
	var body map[string]any
	return officetest.Open(t, Section(), auth.Operator, func(w http.ResponseWriter, r *http.Request) {
		body = nil
		_ = json.NewDecoder(r.Body).Decode(&body)
		_, _ = io.WriteString(w, cmp.Or(map[string]string{
			"/api/v1/admin/items/7":           `{"id":"7","activity_id":"3","title":"Lamp","sku":"lamp","version":1}`,
			"/api/v1/admin/items/7/admission": `{"per_second":50}`,
			"/api/v1/admin/activities/3":      `{"id":"3","name":"Sale","status":"running"}`,
		}[r.URL.Path], "{}"))
	}), func() map[string]any { return body }
}

// TestSessionEditRemovesTheCap: an empty cap of a session with a reservation removes the one that it had.
func TestSessionEditRemovesTheCap(t *testing.T) {
	t.Parallel()
	open, got := desk(t)
	form := url.Values{
		"version": {"1"}, "name": {"20 h"}, "opens_at": {"2026-11-11T20:00"}, "closes_at": {"2026-11-11T22:00"}, "_back": {"/admin/items/7"},
		"reservation_opens_at": {"2026-11-10T20:00"}, "reservation_closes_at": {"2026-11-11T19:00"}, "reservation_cap": {""},
	}
	open("/admin/sessions/5/edit", form, "en")
	require.Equal(t, "the cap that the API got", got()["reservation_cap"], any(0.0))
	form.Set("reservation_cap", "2.5")
	open("/admin/sessions/5/edit", form, "en")
	require.Equal(t, "the cap that the API got", got()["reservation_cap"], any(2.5))
	form.Del("reservation_opens_at")
	form.Del("reservation_closes_at")
	open("/admin/sessions/5/edit", form, "en")
	require.Equal(t, "a reservation that is removed", got(), map[string]any{
		"version": 1.0, "name": "20 h", "opens_at": "2026-11-11T20:00:00Z", "closes_at": "2026-11-11T22:00:00Z", "without_reservation": true,
	})
}

// TestItemsRateIsOfAllInstances: the page says what the API's rate is of.
func TestItemsRateIsOfAllInstances(t *testing.T) {
	t.Parallel()
	open, _ := desk(t)
	require.Contains(t, "the page", open("/admin/items/7", nil, "en"), "50 per second on all instances together ·")
	require.Contains(t, "the page in Chinese", open("/admin/items/7", nil, "zh"), "50 次/秒（所有实例合计） ·")
}
