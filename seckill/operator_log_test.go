package seckill

import (
	"bytes"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTheLogNamesWhoChangedTheSale expects one log line for each action that
// affects shoppers immediately, and none for one that changed nothing.
func TestTheLogNamesWhoChangedTheSale(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	d := setup(t).instance(func(_ *Config, deps *Deps) { deps.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	s := d.draft(time.Hour)
	var want []string
	for _, act := range []action{actPublish, actPublish, actPause, actPause, actResume, actAddStock, actTerminate} {
		if r := d.try(s, act); r.status != http.StatusOK {
			t.Fatalf("%s: %d %s", act, r.status, r.raw)
		}
		line := "action=" + string(act) + " activity_id=" + s.activity + " actor=72"
		if act == actAddStock {
			line = "action=add-stock item_id=" + s.item + " units=1 actor=72"
		}
		if !slices.Contains(want, line) {
			want = append(want, line)
		}
	}
	gone := d.draft(time.Hour)
	d.do(http.StatusNoContent, http.MethodDelete, "/api/v1/admin/activities/"+gone.activity, nil) // a draft: shoppers have not seen it
	gone = d.publish(time.Hour)
	rated := "/api/v1/admin/items/" + gone.item + "/admission"
	d.do(http.StatusOK, http.MethodPut, rated, `{"per_second":5}`)
	d.do(http.StatusOK, http.MethodPut, rated, `{"per_second":0}`)
	d.do(http.StatusOK, http.MethodPut, rated, `{"per_second":null}`)
	d.do(http.StatusNoContent, http.MethodDelete, "/api/v1/admin/activities/"+gone.activity, nil)
	want = append(want, "action=publish activity_id="+gone.activity+" actor=72",
		"action=admission item_id="+gone.item+" per_second=5 actor=72", "action=admission item_id="+gone.item+" per_second=0 actor=72",
		"action=admission item_id="+gone.item+" per_second=unlimited actor=72",
		"action=delete activity_id="+gone.activity+" actor=72")
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
