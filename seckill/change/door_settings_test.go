package change

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/internal/wire"
	"stampede/seckill/plan"
)

const adminActivities, adminSessions = "/api/v1/admin/activities/", "/api/v1/admin/sessions/"

// guarded uses every door setting.
func guarded(opens, closes time.Time) func(activity, session, item map[string]any) {
	return func(activity, session, _ map[string]any) {
		activity["human_check"], activity["human_check_rate"], activity["exclusive"] = "pow", 30, true
		activity["checkout"] = map[string]any{"ways": []string{"delivery"}, "freight": map[string]any{"amount": 800, "currency": "CNY"}, "address": "required"}
		session["reservation_opens_at"], session["reservation_closes_at"], session["reservation_cap"] = opens, closes, 2.5
	}
}

// entry reads the settings from an answer, in one line.
func entry(v map[string]any) string {
	return fmt.Sprint(v["human_check"], " ", v["human_check_rate"], " ", v["exclusive"])
}

func reservationOf(v map[string]any) string {
	return fmt.Sprint(v["reservation_opens_at"], " ", v["reservation_closes_at"], " ", v["reservation_cap"])
}

func utc(t time.Time) string { return t.UTC().Format(wire.TimeLayout) }

func TestDoorSettingsAreKept(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	now := time.Now().UTC().Truncate(time.Millisecond)
	from, until := now.Add(-time.Hour), now.Add(time.Hour)
	s := d.Publish(2*time.Hour, guarded(from, until))

	activity := d.Do(http.StatusOK, http.MethodGet, adminActivities+s.Activity, nil)
	session := d.Do(http.StatusOK, http.MethodGet, adminSessions+s.Session, nil)
	require.Equal(t, "the activity", entry(activity.Doc), "pow 30 true")
	require.Equal(t, "the session", reservationOf(session.Doc), utc(from)+" "+utc(until)+" 2.5")
	id := s.StockItem(t, false).ID
	item, ok := d.items.Item(id)
	if !ok || item.HumanCheck != "pow" || item.HumanCheckRate != 30 || !item.OnePerUser ||
		!item.ReserveFrom.Equal(from) || !item.ReserveUntil.Equal(until) {
		t.Errorf("the catalogue shows %+v", item)
	}
	for _, path := range []string{"/api/v1/sessions/" + s.Session, "/api/v1/items/" + s.Item} {
		shown := d.As("", http.MethodGet, path, nil).Doc
		if shown["human_check"] != "pow" || shown["reservation_opens_at"] != utc(from) || shown["reservation_closes_at"] != utc(until) || shown["server_time"] == nil {
			t.Errorf("%s shows %v", path, shown)
		}
		if got := fmt.Sprint(shown["delivery"]); strings.Contains(path, "/items/") && got != "map[freight:map[amount:800 currency:CNY] ways:[delivery]]" {
			t.Errorf("before the rush the item says of its delivery %s", got)
		}
		if _, told := shown["reservation_cap"]; told {
			t.Errorf("%s reveals the cap to shoppers", path)
		}
	}

	// An edit changes what it names.
	d.Do(http.StatusOK, http.MethodPatch, adminActivities+s.Activity, map[string]any{"version": 1, "human_check": "slide"})
	r := d.Do(http.StatusOK, http.MethodPatch, adminActivities+s.Activity, map[string]any{"version": 2, "human_check_rate": 0, "exclusive": false})
	require.Equal(t, "after two edits the activity", entry(r.Doc), "slide 0 false")
	later := until.Add(30 * time.Minute)
	r = d.Do(http.StatusOK, http.MethodPatch, adminSessions+s.Session, map[string]any{"version": 1, "reservation_closes_at": later, "reservation_cap": 3})
	require.Equal(t, "after an edit the session", reservationOf(r.Doc), utc(from)+" "+utc(later)+" 3")
	r = d.Do(http.StatusOK, http.MethodPatch, adminSessions+s.Session, map[string]any{"version": 2, "without_reservation": true})
	require.Equal(t, "without a reservation the session", reservationOf(r.Doc), "<nil> <nil> 0")
	if item, _ := d.items.Item(id); !item.ReserveFrom.IsZero() || !item.ReserveUntil.IsZero() {
		t.Errorf("without a reservation the catalogue shows %+v", item)
	}
}

func TestDoorSettingsThatAreRefused(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	now := time.Now().UTC()
	type fields = map[string]any
	for _, c := range []struct {
		name     string
		activity fields
		session  fields
		field    string
		sentence string // a part of it
	}{
		{"unknown check", fields{"human_check": "riddle"}, nil, "human_check", ""},
		{"rate below 0", fields{"human_check_rate": -1}, nil, "human_check_rate", ""},
		{"rate too high", fields{"human_check_rate": 1001}, nil, "human_check_rate", ""},
		{"only an opening", nil, fields{"reservation_opens_at": now}, "reservation_closes_at", "or neither"},
		{"only a closing", nil, fields{"reservation_closes_at": now}, "reservation_closes_at", "or neither"},
		{"closes as it opens", nil, fields{"reservation_opens_at": now, "reservation_closes_at": now}, "reservation_closes_at", "after it opens"},
		{"closes after the opening", nil, fields{"reservation_opens_at": now, "reservation_closes_at": now.Add(3 * time.Hour)}, "reservation_closes_at", "no later than its session opens"},
		{"in seconds", nil, fields{"reservation_opens_at": time.Unix(0, now.UnixMilli()).UTC(), "reservation_closes_at": now}, "reservation_opens_at", "2000 to 2199"},
		{"cap below the stock", nil, fields{"reservation_opens_at": now, "reservation_closes_at": now.Add(time.Hour), "reservation_cap": 0.5}, "reservation_cap", "1 to 1000 times"},
		{"cap too high", nil, fields{"reservation_opens_at": now, "reservation_closes_at": now.Add(time.Hour), "reservation_cap": 1000.5}, "reservation_cap", ""},
		{"cap of nothing", nil, fields{"reservation_cap": 2}, "reservation_cap", "needs a reservation"},
	} {
		t.Run(c.name, func(t *testing.T) {
			session := fields{"name": "First", "opens_at": now.Add(2 * time.Hour), "closes_at": now.Add(3 * time.Hour)}
			activity := fields{"name": "Sale", "starts_at": now, "ends_at": now.Add(4 * time.Hour), "sessions": []any{session}}
			maps.Copy(activity, c.activity)
			maps.Copy(session, c.session)
			r := d.Do(http.StatusUnprocessableEntity, http.MethodPost, strings.TrimSuffix(adminActivities, "/"), activity)
			said := r.Doc["errors"].([]any)[0].(map[string]any)
			if !strings.HasSuffix(said["location"].(string), c.field) || !strings.Contains(said["message"].(string), c.sentence) {
				t.Errorf("got %v, want %q of %s", said, c.sentence, c.field)
			}
		})
	}
	// An edit of something else may break the rule too.
	s := d.Draft(2*time.Hour, guarded(now, now.Add(time.Hour)))
	r := d.Do(http.StatusUnprocessableEntity, http.MethodPatch, adminSessions+s.Session, fields{"version": 1, "opens_at": now.Add(50 * time.Minute)})
	r.Want(t, "a later opening", http.StatusUnprocessableEntity, "", "no later than its session opens")
}

// TestACapIsThereFromTheBeginning checks that the count of reservations stays
// complete.
func TestACapIsThereFromTheBeginning(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	now := time.Now().UTC()
	for _, c := range []struct {
		name          string
		opensIn       time.Duration // of the reservation
		before, after float64
		refused       bool
	}{
		{"introduced before", 2 * time.Minute, 0, 2, false},
		{"introduced late", 30 * time.Second, 0, 2, true},
		{"introduced while open", -time.Minute, 0, 2, true},
		{"taken away while open", -time.Minute, 2, 0, true},
		{"raised while open", -time.Minute, 2, 3, false},
		{"lowered while open", -time.Minute, 3, 2, false},
	} {
		s := d.Draft(2*time.Hour, guarded(now.Add(c.opensIn), now.Add(time.Hour)), func(_, session, _ map[string]any) { session["reservation_cap"] = c.before })
		r := d.As(auth.Operator, http.MethodPatch, adminSessions+s.Session, map[string]any{"version": 1, "reservation_cap": c.after})
		if refused := r.Status == http.StatusUnprocessableEntity && strings.Contains(string(r.Raw), "neither introduced nor removed"); refused != c.refused || !refused && r.Status != http.StatusOK {
			t.Errorf("%s: %d %s", c.name, r.Status, r.Raw)
		}
	}
	// What an earlier cap counted does not count towards the next one.
	s := d.Draft(2*time.Hour, guarded(now.Add(2*time.Minute), now.Add(time.Hour)), func(_, session, _ map[string]any) { session["reservation_cap"] = 0 })
	d.SQL(`INSERT INTO seckill.reservation_counts (item_id, taken, places) VALUES ($1, 7, 20)`, s.Item)
	d.Do(http.StatusOK, http.MethodPatch, adminSessions+s.Session, map[string]any{"version": 1, "reservation_cap": 2})
	require.Equal(t, "old counts", d.Number(`SELECT count(*) FROM seckill.reservation_counts`), 0)
}

// TestReservationsMoveByTheClockOnTheWall clones and repeats a session over the
// night in which the shop's clocks are put forward.
func TestReservationsMoveByTheClockOnTheWall(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	d := setup(t).instance(func(c *plan.Config, _ *Deps) { c.TimeZone = "Europe/Berlin" })
	at := func(day, hour, minute int) time.Time {
		return time.Date(2031, time.March, day, hour, minute, 0, 0, berlin)
	}
	// The clocks go from 2:00 to 3:00 on the 30th.
	draft := func(from, until, opens time.Time) seckilltest.Sale {
		return d.Draft(time.Hour, guarded(from, until), func(activity, session, _ map[string]any) {
			activity["starts_at"], activity["ends_at"] = at(28, 0, 0), at(31, 23, 0)
			session["opens_at"], session["closes_at"] = opens, opens.Add(time.Hour)
		})
	}
	s := draft(at(28, 12, 0), at(29, 1, 30), at(29, 20, 0))
	clone := d.Do(http.StatusCreated, http.MethodPost, adminActivities+s.Activity+"/clone", map[string]any{"shift_days": 1})
	require.Equal(t, "the clone", entry(clone.Doc), "pow 30 true")
	want := utc(at(29, 12, 0)) + " " + utc(at(30, 1, 30)) + " 2.5"
	require.Equal(t, "the clone's session", reservationOf(clone.Doc["sessions"].([]any)[0].(map[string]any)), want)
	r := d.Do(http.StatusOK, http.MethodPost, adminSessions+s.Session+"/repeat", map[string]any{"last_day": "2031-03-31"})
	for i, want := range []string{want, utc(at(30, 12, 0)) + " " + utc(at(31, 1, 30)) + " 2.5"} {
		require.Equal(t, fmt.Sprint("repetition ", i+1), reservationOf(r.Doc["created"].([]any)[i].(map[string]any)), want)
	}

	// A closing time equal to the opening stays so, although 2:30 does not exist
	// that night.
	s = draft(at(29, 2, 15), at(29, 2, 45), at(29, 2, 45))
	r = d.Do(http.StatusOK, http.MethodPost, adminSessions+s.Session+"/repeat", map[string]any{"last_day": "2031-03-30"})
	moved := r.Doc["created"].([]any)[0].(map[string]any)
	if moved["reservation_closes_at"] != moved["opens_at"] || moved["opens_at"] != utc(at(30, 3, 45)) || moved["reservation_opens_at"] != utc(at(30, 3, 15)) {
		t.Errorf("over the change the session shows %s, opening at %v", reservationOf(moved), moved["opens_at"])
	}
	// A reservation that would be moved past the opening ends at the opening and keeps
	// its length.
	s = draft(at(29, 2, 15), at(29, 2, 45), at(29, 3, 15))
	r = d.Do(http.StatusOK, http.MethodPost, adminSessions+s.Session+"/repeat", map[string]any{"last_day": "2031-03-30"})
	moved = r.Doc["created"].([]any)[0].(map[string]any)
	opens := at(30, 3, 15)
	require.Equal(t, "over the change the session", reservationOf(moved), utc(opens.Add(-30*time.Minute))+" "+utc(opens)+" 2.5")
}
