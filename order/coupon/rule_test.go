package coupon

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/order/couponevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// reserved is a fake of the plan: who reserved an item, and when that closed.
type reserved struct {
	users  map[int64][]int64
	closed map[int64]time.Time
}

func (r *reserved) ReservationsClosed(_ context.Context, items, activities []int64) (map[int64]time.Time, error) {
	if !slices.Equal(items, []int64{1, 2}) || !slices.Equal(activities, []int64{7}) {
		return nil, fmt.Errorf("asked for items %v, activities %v", items, activities)
	}
	return r.closed, nil
}

func (r *reserved) ReservedBy(_ context.Context, item, after int64, limit int32) (list []int64, err error) {
	for _, user := range r.users[item] {
		if user > after && len(list) < int(limit) {
			list = append(list, user)
		}
	}
	return list, nil
}

func (s *shop) usedUp() (list []string) {
	s.t.Helper()
	probe := s.Probes()[0]
	require.Equal(s.t, "alarm of the probe", probe.Alarm.Code, "coupons-used-up")
	found, err := probe.Look(s.t.Context())
	require.NoError(s.t, err)
	for _, f := range found {
		list = append(list, f.Subject)
	}
	return list
}

// Each user with a reservation gets one coupon when it has closed, however often the
// worker runs and wherever it was interrupted; a total that is too small is an alarm,
// and issued in full.
func TestReservationsGetTheirCouponsWhenTheyHaveClosed(t *testing.T) {
	t.Parallel()
	s := setup(t)
	first := time.Now().UTC().Truncate(time.Microsecond)
	plan := &reserved{users: map[int64][]int64{1: {10, 11, 12}, 2: {12, 13}}, closed: map[int64]time.Time{1: first}}
	const rule = `"issue_on":"reservation","reserved_item_ids":["1","2"],"reserved_activity_ids":["7"]`
	id := s.kind(terms(rule + `,"total":2`))
	run := func(want int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		release := pgtest.Locked(t, s.db, `LOCK TABLE orders.coupon_uses`) // it counts no uses
		require.NoError(t, s.issueReserved(ctx, plan))
		release()
		require.Equal(t, "coupons", s.count(`SELECT count(*) FROM orders.coupons WHERE kind_id = $1`, id), want)
	}
	for user := int64(100); user < 100+rulePage; user++ { // more than a page of an item that has not closed
		plan.users[2] = append(plan.users[2], user)
	}
	run(2)
	run(2)
	require.Equal(t, "used up", s.usedUp(), []string{"coupon " + id})
	plan.users[1] = append(plan.users[1], 14) // of a reservation that the operator extended
	plan.closed[1] = first.Add(time.Hour)
	s.must("200", 9, auth.Operator, http.MethodPut, "admin/coupons/"+id, strings.TrimSuffix(terms(rule+`,"total":1500`), "}")+`,"version":2}`)
	run(4)
	require.Equal(t, "used up", s.usedUp(), nil)
	plan.users[1] = append([]int64{9}, plan.users[1]...) // extended once more, when all had theirs
	plan.closed[1] = first.Add(2 * time.Hour)
	run(5)
	plan.closed[2] = first
	run(5 + 1 + rulePage) // user 12 has one already
	// A page whose place was not saved is issued again, to no effect.
	s.exec(`UPDATE orders.coupon_progress SET after_user = 0, done = false`)
	run(5 + 1 + rulePage)
	require.Equal(t, "coupons in events", s.told(couponevent.SubjectIssued), 5+1+rulePage)
	s.exec(`DELETE FROM orders.coupon_progress`)
	s.must("200", 9, auth.Operator, http.MethodPost, "admin/coupons/"+id+"/stop", "")
	plan.users[1] = append(plan.users[1], 15)
	run(5 + 1 + rulePage)
	require.Equal(t, "violations", s.violations(), nil)
}

// A new account gets one coupon of each kind for registrations, however often its
// event is delivered.
func TestRegistrationGetsItsCoupons(t *testing.T) {
	t.Parallel()
	s := setup(t)
	register := func(payload string) error {
		return s.registered(t.Context(), bus.Msg{ID: ids.New(), Subject: "events.account.registered", Data: []byte(payload)})
	}
	require.NoError(t, register(`{"user_id":"40"}`)) // no kind yet
	const rule = `"issue_on":"registration"`
	s.kind(terms(rule + `,"total":1`))
	s.kind(terms(rule + `,"per_user":3`))
	s.kind(terms(""))
	s.must("201", 9, auth.Operator, http.MethodPost, "admin/coupons", terms(rule))
	for _, user := range []int{41, 42, 41} {
		require.NoError(t, register(fmt.Sprintf(`{"user_id":"%d"}`, user)))
	}
	for user, want := range map[int64]int{40: 0, 41: 2, 42: 1} {
		if list := s.must("200", user, auth.Shopper, http.MethodGet, "coupons", "")["data"].([]any); len(list) != want {
			t.Errorf("user %d has %v", user, list)
		}
	}
	require.Equal(t, "an event without a user is refused", register(`{}`) != nil, true)
	for rule, want := range map[string]string{
		`"issue_on":"reservation"`:                                         "422 invalid",
		`"issue_on":"registration","reserved_item_ids":["1"]`:              "422 invalid",
		`"reserved_activity_ids":["1"]`:                                    "422 invalid",
		`"issue_on":"reservation","reserved_activity_ids":["x"]`:           "422 invalid",
		`"issue_on":"birthday"`:                                            "422 invalid",
		`"issue_on":"reservation","reserved_activity_ids":["1"]`:           "201",
		`"issue_on":"registration",` + around("claim_from", "claim_until"): "201",
	} {
		s.must(want, 9, auth.Operator, http.MethodPost, "admin/coupons", terms(rule))
	}
}
