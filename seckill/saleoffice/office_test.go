package saleoffice

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	kit "stampede/platform/edge/office"
	"stampede/platform/workshop/require"
)

// desk is the office over an API that has one item, and keeps the last body that it got.
type desk struct {
	tokens *auth.Tokens
	got    map[string]any
}

// Receive takes every form.
func (*desk) Receive(http.ResponseWriter, *http.Request, int64, bool) error { return nil }

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.got = nil
	_ = json.NewDecoder(r.Body).Decode(&d.got)
	answer := cmp.Or(map[string]string{
		"/api/v1/admin/items/7":           `{"id":"7","activity_id":"3","title":"Lamp","sku":"lamp","version":1}`,
		"/api/v1/admin/items/7/admission": `{"per_second":50}`,
		"/api/v1/admin/activities/3":      `{"id":"3","name":"Sale","status":"running"}`,
	}[r.URL.Path], "{}")
	if r.URL.Path == "/api/v1/auth/login" {
		access, _ := d.tokens.Mint(auth.Principal{UserID: 5, Role: auth.Operator, Login: 1}, 15*time.Minute) // the key is long enough
		answer = fmt.Sprintf(`{"access_token":%q,"refresh_token":"r","expires_in":900}`, access)
	}
	_, _ = io.WriteString(w, answer)
}

// opened returns the page that an operator gets, for a form if there is one.
func (d *desk) opened(t *testing.T) func(path string, form url.Values, language string) string {
	t.Helper()
	const key = "a signing key of tests, long enough for all"
	d.tokens = auth.NewTokens([]byte(key), time.Now)
	office, err := kit.New(kit.Deps{
		API: d, Tokens: d.tokens, SigningKeys: [][]byte{[]byte(key)}, Zone: time.UTC, PublicURL: "https://shop.example", Log: slog.New(slog.DiscardHandler),
	}, Section())
	require.NoError(t, err)
	var cookies []*http.Cookie
	open := func(path string, form url.Values, language string) string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		if form != nil {
			r = httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		r.Header.Set("Accept-Language", language)
		for _, c := range cookies {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		office.ServeHTTP(w, r)
		cookies = append(cookies, w.Result().Cookies()...)
		return w.Body.String()
	}
	open("/admin/sign-in", url.Values{"phone": {"13800138000"}, "password": {"secret words"}}, "en")
	return open
}

// TestSessionEditRemovesTheCap: an empty cap of a session with a reservation removes the one that it had.
func TestSessionEditRemovesTheCap(t *testing.T) {
	t.Parallel()
	d := &desk{}
	open := d.opened(t)
	form := url.Values{
		"version": {"1"}, "name": {"20 h"}, "opens_at": {"2026-11-11T20:00"}, "closes_at": {"2026-11-11T22:00"}, "_back": {"/admin/items/7"},
		"reservation_opens_at": {"2026-11-10T20:00"}, "reservation_closes_at": {"2026-11-11T19:00"}, "reservation_cap": {""},
	}
	open("/admin/sessions/5/edit", form, "en")
	require.Equal(t, "the cap that the API got", d.got["reservation_cap"], any(0.0))
	form.Set("reservation_cap", "2.5")
	open("/admin/sessions/5/edit", form, "en")
	require.Equal(t, "the cap that the API got", d.got["reservation_cap"], any(2.5))
	form.Del("reservation_opens_at")
	form.Del("reservation_closes_at")
	open("/admin/sessions/5/edit", form, "en")
	require.Equal(t, "a reservation that is removed", d.got, map[string]any{
		"version": 1.0, "name": "20 h", "opens_at": "2026-11-11T20:00:00Z", "closes_at": "2026-11-11T22:00:00Z", "without_reservation": true,
	})
}

// TestItemsRateIsOfAllInstances: the page says what the API's rate is of.
func TestItemsRateIsOfAllInstances(t *testing.T) {
	t.Parallel()
	open := (&desk{}).opened(t)
	require.Contains(t, "the page", open("/admin/items/7", nil, "en"), "50 per second on all instances together ·")
	require.Contains(t, "the page in Chinese", open("/admin/items/7", nil, "zh"), "50 次/秒（所有实例合计） ·")
}
