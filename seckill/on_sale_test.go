package seckill

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"stampede/platform/workshop/require"
)

// TestClosedReservationsAreFinal lists the reservations of an item, by the item and by
// its activity, only once no more can be granted.
func TestClosedReservationsAreFinal(t *testing.T) {
	t.Parallel()
	d := setup(t)
	now := time.Now()
	s := d.Publish(time.Hour, func(_, session, _ map[string]any) {
		session["reservation_opens_at"], session["reservation_closes_at"] = now.Add(-time.Hour), now.Add(time.Hour)
	})
	stock := s.StockItem(t, false)
	item, activity := stock.ID, stock.ActivityID
	found := func() (n int) {
		t.Helper()
		for _, ask := range [][2][]int64{{{item}, nil}, {nil, {activity}}, {{item}, {activity}}, {{item + 1}, {activity + 1}}} {
			closed, err := NewPlan(d.DB).ReservationsClosed(t.Context(), ask[0], ask[1])
			require.NoError(t, err)
			if at, ok := closed[item]; ok && at.Before(time.Now()) {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		closes string
		want   int
	}{{`now() + interval '1 minute'`, 0}, {`now() - interval '5 seconds'`, 0}, {`now() - interval '40 seconds'`, 3}} {
		d.SQL(`UPDATE seckill.sessions SET reservation_closes_at = `+c.closes+` WHERE id = $1`, s.Session)
		require.Equal(t, "questions that find it, closing at "+c.closes, found(), c.want)
	}
	d.SQL(`INSERT INTO seckill.reservations (item_id, user_id) SELECT $1, n FROM generate_series(1, 5) n`, item)
	users, err := NewPlan(d.DB).ReservedBy(t.Context(), item, 2, 2)
	require.NoError(t, err)
	require.Equal(t, "the two users after 2", users, []int64{3, 4})
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/terminate", nil)
	require.Equal(t, "questions that find an item of a terminated activity", found(), 0)
}

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

// Orders may rely on the rule: it can be changed until shortly before the opening.
func TestPointsRateOfAnActivity(t *testing.T) {
	t.Parallel()
	d := setup(t)
	s := d.Publish(2*time.Hour, func(activity, _, _ map[string]any) { activity["points_rate"] = 100 })
	path := "/api/v1/admin/activities/" + s.Activity
	inForce := func(want int32) {
		t.Helper()
		sale, err := NewPlan(d.DB).SaleOf(t.Context(), s.StockItem(t, false).ID)
		require.NoError(t, err)
		require.Equal(t, "points for each 100 minor units", sale.PointsRate, want)
		require.Equal[any](t, "the rate in the plan", d.Do(http.StatusOK, http.MethodGet, path, nil).Doc["points_rate"], float64(want))
	}
	inForce(100)
	d.Do(http.StatusOK, http.MethodPatch, path, map[string]any{"version": 1, "points_rate": 250})
	inForce(250)
	for _, wrong := range []int{-1, 10_001} {
		d.Do(http.StatusUnprocessableEntity, http.MethodPatch, path, map[string]any{"version": 2, "points_rate": wrong})
	}
	d.SQL(`UPDATE seckill.sessions SET opens_at = now() + interval '30 seconds' WHERE id = $1`, s.Session)
	d.Do(http.StatusConflict, http.MethodPatch, path, map[string]any{"version": 2, "points_rate": 0})
	inForce(250)
}
