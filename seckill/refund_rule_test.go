package seckill

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"stampede/platform/workshop/require"
)

func TestRefundRuleOfAnActivity(t *testing.T) {
	t.Parallel()
	d := setup(t)
	rule := func(v map[string]any) string { return fmt.Sprint(v["refund_within_hours"], " ", v["refund_units"]) }
	inForce := func(activity, want string) {
		t.Helper()
		id, err := strconv.ParseInt(activity, 10, 64)
		require.NoError(t, err)
		within, writeOff, err := NewPlan(d.DB).RefundRule(t.Context(), id)
		if got := fmt.Sprint(within, " ", writeOff); err != nil || got != want {
			t.Errorf("the rule in force is %s, %v; want %s", got, err, want)
		}
	}
	s := d.Publish(2 * time.Hour)
	read := func() map[string]any {
		return d.Do(http.StatusOK, http.MethodGet, "/api/v1/admin/activities/"+s.Activity, nil).Doc
	}
	require.Equal(t, "unless given the rule", rule(read()), "0 return")
	inForce(s.Activity, "0s false")
	d.Do(http.StatusOK, http.MethodPatch, "/api/v1/admin/activities/"+s.Activity, map[string]any{"version": 1, "refund_within_hours": 168})
	d.Do(http.StatusOK, http.MethodPatch, "/api/v1/admin/activities/"+s.Activity, map[string]any{"version": 2, "refund_units": "write_off"})
	require.Equal(t, "after two edits the rule", rule(read()), "168 write_off")
	inForce(s.Activity, "168h0m0s true")
	for _, wrong := range []map[string]any{{"refund_within_hours": -1}, {"refund_within_hours": 8761}, {"refund_units": "keep"}} {
		wrong["version"] = 3
		d.Do(http.StatusUnprocessableEntity, http.MethodPatch, "/api/v1/admin/activities/"+s.Activity, wrong)
	}
	inForce("999999", "0s false")
	made := d.Draft(2*time.Hour, func(activity, _, _ map[string]any) {
		activity["refund_within_hours"], activity["refund_units"] = 24, "write_off"
	})
	inForce(made.Activity, "24h0m0s true")
}
