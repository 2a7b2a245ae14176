package change

import (
	"bytes"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/seckill/plan"
)

// TestTheLogNamesWhoChangedTheSale expects one log line for each action that
// affects shoppers immediately, and none for one that changed nothing.
func TestTheLogNamesWhoChangedTheSale(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	d := setup(t).instance(func(_ *plan.Config, deps *Deps) { deps.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	s := d.Draft(time.Hour)
	var want []string
	for _, act := range []plan.Action{plan.ActPublish, plan.ActPublish, plan.ActPause, plan.ActPause, plan.ActResume, plan.ActAddStock, plan.ActTerminate} {
		if r := d.try(s, act); r.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", act, r.Status, r.Raw)
		}
		line := "action=" + string(act) + " activity_id=" + s.Activity + " actor=72"
		if act == plan.ActAddStock {
			line = "action=add-stock item_id=" + s.Item + " units=1 actor=72"
		}
		if !slices.Contains(want, line) {
			want = append(want, line)
		}
	}
	gone := d.Draft(time.Hour)
	d.Do(http.StatusNoContent, http.MethodDelete, "/api/v1/admin/activities/"+gone.Activity, nil) // a draft: shoppers have not seen it
	gone = d.Publish(time.Hour)
	rated := "/api/v1/admin/items/" + gone.Item + "/admission"
	d.Do(http.StatusOK, http.MethodPut, rated, `{"per_second":5}`)
	d.Do(http.StatusOK, http.MethodPut, rated, `{"per_second":0}`)
	d.Do(http.StatusOK, http.MethodPut, rated, `{"per_second":null}`)
	d.Do(http.StatusNoContent, http.MethodDelete, "/api/v1/admin/activities/"+gone.Activity, nil)
	want = append(want, "action=publish activity_id="+gone.Activity+" actor=72",
		"action=admission item_id="+gone.Item+" per_second=5 actor=72", "action=admission item_id="+gone.Item+" per_second=0 actor=72",
		"action=admission item_id="+gone.Item+" per_second=unlimited actor=72",
		"action=delete activity_id="+gone.Activity+" actor=72")
	var said []string
	for line := range strings.Lines(log.String()) {
		if _, what, ok := strings.Cut(line, `level=INFO msg="sale changed by an operator" `); ok {
			said = append(said, strings.TrimSpace(what))
		}
	}
	if !slices.Equal(said, want) {
		t.Errorf("logged %q, want %q", said, want)
	}
}
