package seckill

import (
	"net/http"
	"slices"
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
	id := func(text string) int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		require.NoError(t, err)
		return n
	}
	item, activity := id(s.Item), id(s.Activity)
	closes := func(sql string) {
		t.Helper()
		if _, err := d.DB.Exec(t.Context(), `UPDATE seckill.sessions SET reservation_closes_at = `+sql+` WHERE id = $1`, id(s.Session)); err != nil {
			t.Fatal(err)
		}
	}
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
		closes(c.closes)
		if n := found(); n != c.want {
			t.Errorf("closing at %s, %d questions find it, want %d", c.closes, n, c.want)
		}
	}
	if _, err := d.DB.Exec(t.Context(), `INSERT INTO seckill.reservations (item_id, user_id) SELECT $1, n FROM generate_series(1, 5) n`, item); err != nil {
		t.Fatal(err)
	}
	users, err := NewPlan(d.DB).ReservedBy(t.Context(), item, 2, 2)
	if err != nil || !slices.Equal(users, []int64{3, 4}) {
		t.Errorf("the two users after 2 are %v, %v", users, err)
	}
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/terminate", nil)
	require.Equal(t, "questions that find an item of a terminated activity", found(), 0)
}
