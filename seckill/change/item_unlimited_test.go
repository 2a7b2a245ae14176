package change

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
	s := d.Draft(time.Hour)
	path := "/api/v1/admin/items/" + s.Item
	counts := func(what string, view map[string]any, want any) {
		t.Helper()
		if view["stock"] != want || view["on_sale"] != want || view["unlimited"] != (want == nil) {
			t.Errorf("%s: %v, want %v counted", what, view, want)
		}
	}
	counts("the edit", d.Do(http.StatusOK, http.MethodPatch, path, `{"version":1,"unlimited":true}`).Doc, nil)
	counts("the item", d.Do(http.StatusOK, http.MethodGet, path, nil).Doc, nil)
	session := d.Do(http.StatusOK, http.MethodGet, "/api/v1/admin/sessions/"+s.Session, nil).Doc
	counts("its session", session["items"].([]any)[0].(map[string]any), nil)
	funnel := d.Do(http.StatusOK, http.MethodGet, path+"/funnel", nil).Doc
	for _, field := range []string{"stock", "oversell"} {
		if v, ok := funnel[field]; !ok || v != nil {
			t.Errorf("the funnel's %s is %v", field, v)
		}
	}
	for body, want := range map[string]string{
		`{"version":2,"unlimited":true,"stock":5}`: "no stock to count", `{"version":2,"unlimited":false}`: "at least one unit",
	} {
		if r := d.As(auth.Operator, http.MethodPatch, path, body); r.Status != http.StatusUnprocessableEntity || !strings.Contains(string(r.Raw), want) {
			t.Errorf("%s: %d %s", body, r.Status, r.Raw)
		}
	}
	counts("back again", d.Do(http.StatusOK, http.MethodPatch, path, `{"version":2,"unlimited":false,"stock":3}`).Doc, 3.0)
}
