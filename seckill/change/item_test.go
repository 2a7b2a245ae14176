package change

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
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

// TestTheAdmissionRateIsShown checks that every instance shows the rate,
// whichever instance it was set on.
func TestTheAdmissionRateIsShown(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a, b := y.instance(), y.instance()
	s := a.Publish(time.Hour)
	path := "/api/v1/admin/items/" + s.Item + "/admission"
	for _, c := range []struct {
		body string
		want any
	}{{`{"per_second":250}`, 250.0}, {`{"per_second":40}`, 40.0}, {`{"per_second":0}`, 0.0}, {`{"per_second":null}`, nil}} {
		tr := a.Traced(func() { a.Do(http.StatusOK, http.MethodPut, path, c.body) })
		if tr.String() != "[item.admission] and 1 events" {
			t.Errorf("%s left %v", c.body, tr)
		}
		for name, d := range map[string]*instance{"that it was set on": a, "beside it": b} {
			require.NoError(t, d.items.Refresh(t.Context()))
			if item, _ := d.items.Item(s.StockItem(t, false).ID); (item.Admission == nil) != (c.want == nil) || item.Admission != nil && float64(*item.Admission) != c.want {
				t.Errorf("%s: the line %s admits %v", c.body, name, item.Admission)
			}
			if r := d.As(auth.Viewer, http.MethodGet, path, nil); r.Status != http.StatusOK || r.Doc["per_second"] != c.want {
				t.Errorf("%s on the instance %s: %d %s", c.body, name, r.Status, r.Raw)
			}
		}
	}
	a.As(auth.Viewer, http.MethodGet, "/api/v1/admin/items/987654/admission", nil).Want(t, "unknown item", http.StatusNotFound, "")
	a.As(auth.Shopper, http.MethodGet, path, nil).Want(t, "a shopper sees it", http.StatusForbidden, "")
	for _, role := range []auth.Role{auth.Shopper, auth.Viewer} {
		if r := a.As(role, http.MethodPut, path, `{"per_second":1}`); r.Status != http.StatusForbidden {
			t.Errorf("a %s sets it: %d %s", role, r.Status, r.Raw)
		}
	}
}
