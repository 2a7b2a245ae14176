package seckill

import (
	"net/http"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
)

// TestTheAdmissionRateIsShown checks that every instance shows the rate,
// whichever instance it was set on.
func TestTheAdmissionRateIsShown(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a, b := y.instance(), y.instance()
	s := a.publish(time.Hour)
	path := "/api/v1/admin/items/" + s.item + "/admission"
	for _, c := range []struct {
		body string
		want any
	}{{`{"per_second":250}`, 250.0}, {`{"per_second":40}`, 40.0}, {`{"per_second":0}`, 0.0}, {`{"per_second":null}`, nil}} {
		tr := a.traced(func() { a.do(http.StatusOK, http.MethodPut, path, c.body) })
		if tr.String() != "[item.admission] and 1 events" {
			t.Errorf("%s left %v", c.body, tr)
		}
		for name, d := range map[string]*instance{"that it was set on": a, "beside it": b} {
			require.NoError(t, d.svc.Catalogue.Refresh(t.Context()))
			if item, _ := d.svc.Catalogue.Item(s.stockItem(t, false).ID); (item.Admission == nil) != (c.want == nil) || item.Admission != nil && float64(*item.Admission) != c.want {
				t.Errorf("%s: the line %s admits %v", c.body, name, item.Admission)
			}
			if r := d.as(auth.Viewer, http.MethodGet, path, nil); r.status != http.StatusOK || r.body["per_second"] != c.want {
				t.Errorf("%s on the instance %s: %d %s", c.body, name, r.status, r.raw)
			}
		}
	}
	a.as(auth.Viewer, http.MethodGet, "/api/v1/admin/items/987654/admission", nil).want(t, "unknown item", http.StatusNotFound, "")
	a.as(auth.Shopper, http.MethodGet, path, nil).want(t, "a shopper sees it", http.StatusForbidden, "")
	for _, role := range []auth.Role{auth.Shopper, auth.Viewer} {
		if r := a.as(role, http.MethodPut, path, `{"per_second":1}`); r.status != http.StatusForbidden {
			t.Errorf("a %s sets it: %d %s", role, r.status, r.raw)
		}
	}
}
