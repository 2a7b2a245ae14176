package change

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/plan"
)

// openings lists when the sessions of an activity open.
func (d *instance) openings(s seckilltest.Sale) []string {
	d.T.Helper()
	r := d.Do(http.StatusOK, http.MethodGet, "/api/v1/admin/activities/"+s.Activity, nil)
	var all []string
	for _, v := range r.Doc["sessions"].([]any) {
		all = append(all, v.(map[string]any)["opens_at"].(string))
	}
	return all
}

// TestASessionRepeatsOverTheChangeOfTheClocks checks that each copy opens at
// 10:00 local time, has the item, and can be changed separately.
func TestASessionRepeatsOverTheChangeOfTheClocks(t *testing.T) {
	t.Parallel()
	d := setup(t).instance(inZone("America/New_York"))
	s := d.Draft(time.Hour, spring)
	path, body := "/api/v1/admin/sessions/"+s.Session+"/repeat", `{"last_day":"2026-03-09"}`
	var r seckilltest.Reply
	tr := d.Traced(func() { r = d.Do(http.StatusOK, http.MethodPost, path, body, "Idempotency-Key", "r1") })
	want := append(slices.Repeat([]string{"session.create", "item.create"}, 3), "session.repeat")
	require.Equal(t, "what repeating left", tr, seckilltest.Trace{Actions: want})
	want = []string{"2026-03-06T15:00:00.000Z", "2026-03-07T15:00:00.000Z", "2026-03-08T14:00:00.000Z", "2026-03-09T14:00:00.000Z"}
	require.Equal(t, "openings", d.openings(s), want)
	second := r.Doc["created"].([]any)[1].(map[string]any)
	item := second["items"].([]any)[0].(map[string]any)
	if second["closes_at"] != "2026-03-08T16:00:00.000Z" || second["repeat_of"] != s.Session || item["stock"] != 10.0 || item["spec"] != "red" || item["limit_per_user"] != 2.0 {
		t.Errorf("the second copy: %v", second)
	}
	// The same request again, with its key and without one: no copy is made
	// twice.
	d.leaves("repeating again", nothing, func() {
		again := d.Do(http.StatusOK, http.MethodPost, path, body, "Idempotency-Key", "r1")
		require.Equal(t, "repeated by key", string(again.Raw), string(r.Raw))
		again = d.Do(http.StatusOK, http.MethodPost, path, body)
		if made, had := again.Doc["created"].([]any), again.Doc["existing"].([]any); len(made) != 0 || len(had) != 3 {
			t.Errorf("repeated: %s", again.Raw)
		}
	})
	// One day is moved to another time, one is deleted: the first is left alone, the second is created again,
	// whichever day the request names.
	d.Do(http.StatusOK, http.MethodPatch, fmt.Sprintf("/api/v1/admin/sessions/%s", second["id"]), `{"version":1,"name":"Noon","opens_at":"2026-03-08T15:30:00Z"}`)
	first, third := r.Doc["created"].([]any)[0].(map[string]any), r.Doc["created"].([]any)[2].(map[string]any)
	d.Do(http.StatusNoContent, http.MethodDelete, fmt.Sprintf("/api/v1/admin/sessions/%s", third["id"]), nil)
	again := d.Do(http.StatusOK, http.MethodPost, fmt.Sprintf("/api/v1/admin/sessions/%s/repeat", first["id"]), body)
	made, had := again.Doc["created"].([]any), again.Doc["existing"].([]any)
	if len(made) != 1 || len(had) != 1 || had[0].(map[string]any)["session_id"] != second["id"] || had[0].(map[string]any)["day"] != "2026-03-08" {
		t.Errorf("after an edit and a deletion: %s", again.Raw)
	}
	want[2] = "2026-03-08T15:30:00.000Z"
	require.Equal(t, "openings after an edit and a deletion", d.openings(s), want)
}

// TestAScheduledSessionRepeats checks that the copies get stock and are shown,
// and that the activity's end moves only on request.
func TestAScheduledSessionRepeats(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Publish(2 * time.Hour)
	path := "/api/v1/admin/sessions/" + s.Session + "/repeat"
	until := time.Now().Add(2*time.Hour).In(d.svc.cfg.Zone()).AddDate(0, 0, 2).Format(time.DateOnly)
	d.leaves("a refused repetition", nothing, func() {
		d.As(auth.Operator, http.MethodPost, path, `{"last_day":"`+until+`"}`).Want(t, "beyond the activity's end", 422, "", "extend_activity")
	})
	var r seckilltest.Reply
	tr := d.Traced(func() {
		r = d.Do(http.StatusOK, http.MethodPost, path, `{"last_day":"`+until+`","extend_activity":true}`)
	})
	if !slices.Contains(tr.Actions, "activity.edit") || tr.Actions[len(tr.Actions)-1] != "session.repeat" || tr.Events != 1 {
		t.Errorf("repeating left %v", tr)
	}
	require.Equal(t, "items with stock", d.Number(`SELECT count(*) FROM inventory.stock WHERE activity_id = $1 AND total = 10`, s.Activity), 3)
	made := r.Doc["created"].([]any)
	require.Equal(t, "days repeated for", len(made), 2)
	last := made[1].(map[string]any)
	a := d.Do(http.StatusOK, http.MethodGet, "/api/v1/admin/activities/"+s.Activity, nil)
	require.Equal(t, "the activity's end", any(a.Text("ends_at")), last["closes_at"])
	shown := d.As("", http.MethodGet, fmt.Sprintf("/api/v1/sessions/%s", last["id"]), nil)
	shown.Want(t, "a copy", http.StatusOK, "")
	require.Equal(t, "what shoppers see of a copy", shown.Text("status"), "upcoming")
	check := plan.Checks(d.DB, d.Stock)[0]
	if found, err := check.Run(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("stock follows the plan: %v %v", found, err)
	}
}

// TestWrongRepetitions checks that a refused repetition names the mistake and
// records nothing.
func TestWrongRepetitions(t *testing.T) {
	t.Parallel()
	d := setup(t).instance(inZone("America/New_York"))
	s := d.Draft(time.Hour, spring)
	many := d.Draft(time.Hour, spring, func(activity, _, _ map[string]any) { activity["ends_at"] = "2026-12-01T00:00:00Z" })
	for k := range 11 {
		d.Do(http.StatusCreated, http.MethodPost, "/api/v1/admin/items", fmt.Sprintf(`{"session_id":"%s","sku":"s%d","title":"T","stock":1,
			"list_price":{"amount":1,"currency":"CNY"},"sale_price":{"amount":1,"currency":"CNY"}}`, many.Session, k))
	}
	d.leaves("wrong repetitions", nothing, func() {
		for _, c := range []struct{ session, body, code, want string }{
			{s.Session, `{}`, "invalid", "last_day"},
			{s.Session, `{"last_day":"tomorrow"}`, "invalid", "date"},
			{s.Session, `{"last_day":"2026-03-06"}`, "invalid", "1 to 92 days after 2026-03-06"},
			{s.Session, `{"last_day":"2026-06-07"}`, "invalid", "1 to 92 days"},
			{s.Session, `{"last_day":"2026-03-20"}`, "invalid", "after its activity ends"},
			{many.Session, `{"last_day":"2026-06-06"}`, "invalid", "1116 items"},
			{"987654", `{"last_day":"2026-03-07"}`, "not-found", ""},
		} {
			r := d.As(auth.Operator, http.MethodPost, "/api/v1/admin/sessions/"+c.session+"/repeat", c.body)
			r.Want(t, c.body, statusOf[c.code], c.code, c.want)
		}
	})
	r := d.As(auth.Viewer, http.MethodPost, "/api/v1/admin/sessions/"+s.Session+"/repeat", `{"last_day":"2026-03-07"}`)
	r.Want(t, "a viewer repeated", http.StatusForbidden, "")
}

func zoneOf(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	require.NoError(t, err)
	return z
}

// TestAtWallTime covers the days on which the clocks are put forward and
// back, in a zone ahead of UTC and one behind it.
func TestAtWallTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone, wall, want string
		exact            bool
	}{
		{"Asia/Shanghai", "2026-11-11T10:00:00Z", "2026-11-11T02:00:00Z", true},
		{"America/New_York", "2026-03-08T01:59:59Z", "2026-03-08T06:59:59Z", true},
		{"America/New_York", "2026-03-08T02:30:00Z", "2026-03-08T07:30:00Z", false}, // there is no 02:30; it is 03:30
		{"America/New_York", "2026-03-08T03:00:00Z", "2026-03-08T07:00:00Z", true},
		{"America/New_York", "2026-11-01T01:30:00Z", "2026-11-01T05:30:00Z", true}, // twice; the first
		{"America/New_York", "2026-11-01T02:00:00Z", "2026-11-01T07:00:00Z", true},
		{"Europe/Berlin", "2026-03-29T02:30:00Z", "2026-03-29T01:30:00Z", false},
		{"Europe/Berlin", "2026-10-25T02:30:00Z", "2026-10-25T00:30:00Z", true},
		{"Australia/Lord_Howe", "2026-10-04T02:15:00Z", "2026-10-03T15:45:00Z", false}, // half an hour is put forward
		{"Pacific/Apia", "2011-12-31T10:00:00Z", "2011-12-30T20:00:00Z", true},         // the day after one that the calendar skipped
	} {
		wall, err := time.Parse(time.RFC3339, c.wall)
		require.NoError(t, err)
		at, exact := atWallTime(wall, zoneOf(t, c.zone))
		if got := at.UTC().Format(time.RFC3339); got != c.want || exact != c.exact {
			t.Errorf("%s in %s is %s (exact %v), want %s (%v)", c.wall, c.zone, got, exact, c.want, c.exact)
		}
	}
}

// TestShiftedSpans checks that, for any span, number of days and zone, the
// shifted span begins at the same wall clock time if that exists, and ends
// after it begins.
func TestShiftedSpans(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		zone := zoneOf(t, rapid.SampledFrom([]string{"Asia/Shanghai", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca", "UTC"}).Draw(rt, "zone"))
		from := time.Unix(rapid.Int64Range(1_767_225_600, 1_830_297_600).Draw(rt, "from"), 0)
		to := from.Add(time.Duration(rapid.IntRange(10, 200_000).Draw(rt, "seconds")) * time.Second)
		days := rapid.IntRange(-400, 400).Draw(rt, "days")
		newFrom, newTo := shiftSpan(from, to, time.Duration(days)*24*time.Hour, zone)
		wall := wallTime(from, zone).AddDate(0, 0, days)
		if got := wallTime(newFrom, zone); !got.Equal(wall) {
			if at, exact := atWallTime(wall, zone); exact || !at.Equal(newFrom) {
				rt.Fatalf("%v shifted by %d days begins at %v on the wall, want %v", from.In(zone), days, got, wall)
			}
		}
		if days == 0 && wallTime(newFrom, zone) != wallTime(from, zone) {
			rt.Fatalf("shifted by nothing: %v became %v", from, newFrom)
		}
		// The clocks being put back once and forward once changes a length by at most two
		// hours.
		if lost := to.Sub(from) - newTo.Sub(newFrom); lost.Abs() > 2*time.Hour || !newTo.After(newFrom) {
			rt.Fatalf("a span of %v became one of %v", to.Sub(from), newTo.Sub(newFrom))
		}
	})
}
