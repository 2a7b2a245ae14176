package seckill

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
)

// TestAnItemBecomesUnlimitedAndBack checks that one field is the whole edit, and
// that operators see null, not 0, for everything that is not counted.
func TestAnItemBecomesUnlimitedAndBack(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.draft(time.Hour)
	path := "/api/v1/admin/items/" + s.item
	counts := func(what string, view map[string]any, want any) {
		t.Helper()
		if view["stock"] != want || view["on_sale"] != want || view["unlimited"] != (want == nil) {
			t.Errorf("%s: %v, want %v counted", what, view, want)
		}
	}
	counts("the edit", d.do(http.StatusOK, http.MethodPatch, path, `{"version":1,"unlimited":true}`).body, nil)
	counts("the item", d.do(http.StatusOK, http.MethodGet, path, nil).body, nil)
	session := d.do(http.StatusOK, http.MethodGet, "/api/v1/admin/sessions/"+s.session, nil).body
	counts("its session", session["items"].([]any)[0].(map[string]any), nil)
	funnel := d.do(http.StatusOK, http.MethodGet, path+"/funnel", nil).body
	for _, field := range []string{"stock", "oversell"} {
		if v, ok := funnel[field]; !ok || v != nil {
			t.Errorf("the funnel's %s is %v", field, v)
		}
	}
	for body, want := range map[string]string{
		`{"version":2,"unlimited":true,"stock":5}`: "no stock to count", `{"version":2,"unlimited":false}`: "at least one unit",
	} {
		if r := d.as(auth.Operator, http.MethodPatch, path, body); r.status != http.StatusUnprocessableEntity || !strings.Contains(string(r.raw), want) {
			t.Errorf("%s: %d %s", body, r.status, r.raw)
		}
	}
	counts("back again", d.do(http.StatusOK, http.MethodPatch, path, `{"version":2,"unlimited":false,"stock":3}`).body, 3.0)
}
