package seckill

import (
	"bytes"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/seckill/internal/wire"
)

// inZone sets the shop's time zone.
func inZone(name string) func(*Config, *Deps) {
	return func(cfg *Config, _ *Deps) { cfg.TimeZone = name }
}

// spring is a campaign around the night of 8 March 2026, in which New York puts
// its clocks forward at 02:00.
func spring(activity, session, item map[string]any) {
	activity["starts_at"], activity["ends_at"] = "2026-03-01T05:00:00Z", "2026-03-20T04:00:00Z" // midnights
	activity["limit_per_user"], activity["one_item_per_user"], activity["rebuy_after_close"] = 4, true, false
	activity["payment_window_share"] = 0.25
	session["opens_at"], session["closes_at"] = "2026-03-06T15:00:00Z", "2026-03-06T17:00:00Z" // 10:00 to 12:00
	item["limit_per_user"], item["spec"] = 2, "red"
}

// TestCloneIsTheSamePlanAtOtherTimes compares every rule of the original and
// the clone, and checks what cloning records.
func TestCloneIsTheSamePlanAtOtherTimes(t *testing.T) {
	t.Parallel()
	d := setup(t).instance(inZone("America/New_York"))
	s := d.draft(time.Hour, spring)
	d.do(http.StatusOK, http.MethodPut, "/api/v1/admin/items/"+s.item+"/oversell", `{"percent":20,"reason":"contract 7"}`)
	base := "/api/v1/admin/activities/" + s.activity
	original := d.do(http.StatusOK, http.MethodGet, base, nil)
	var clone reply
	tr := d.traced(func() {
		clone = d.do(http.StatusCreated, http.MethodPost, base+"/clone", `{"name":"Again","shift_days":10}`)
	})
	if tr.String() != "[activity.clone session.create item.create] and 0 events" {
		t.Errorf("cloning left %v", tr)
	}
	if got := d.do(http.StatusOK, http.MethodGet, "/api/v1/admin/activities/"+clone.text("id"), nil); !bytes.Equal(got.raw, clone.raw) {
		t.Errorf("answered %s\nkept     %s", clone.raw, got.raw)
	}
	session := clone.body["sessions"].([]any)[0].(map[string]any)
	for field, want := range map[string]string{
		"starts_at": "2026-03-11T04:00:00.000Z", "ends_at": "2026-03-30T04:00:00.000Z", "name": "Again", "status": "draft",
	} {
		if clone.text(field) != want {
			t.Errorf("%s is %s, want %s", field, clone.text(field), want)
		}
	}
	// Still 10:00 to 12:00 local time, an hour earlier in UTC.
	if session["opens_at"] != "2026-03-16T14:00:00.000Z" || session["closes_at"] != "2026-03-16T16:00:00.000Z" {
		t.Errorf("session of the clone: %v", session)
	}
	if got, want := rules(clone.body), rules(original.body); !reflect.DeepEqual(got, want) {
		t.Errorf("the clone differs:\n%v\n%v", got, want)
	}
	var of string
	if err := d.DB.QueryRow(t.Context(), `SELECT detail->'after'->>'of' FROM platform.audit WHERE action = 'activity.clone' AND subject = $1 AND actor = 72`,
		"activity "+clone.text("id")).Scan(&of); err != nil || of != "activity "+s.activity {
		t.Errorf("the log says it is a clone of %q (%v)", of, err)
	}
	// The original is as it was.
	if again := d.do(http.StatusOK, http.MethodGet, base, nil); !bytes.Equal(again.raw, original.raw) {
		t.Errorf("the original became %s", again.raw)
	}
}

// rules returns a plan without ids, versions and times.
func rules(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for field, value := range v {
			own := field == "id" || strings.HasSuffix(field, "_id") || strings.HasSuffix(field, "_at") || field == "version" ||
				field == "repeat_of" || field == "status" || field == "paused" || field == "name"
			if !own {
				out[field] = rules(value)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = rules(v[i])
		}
		return out
	default:
		return v
	}
}

// TestCloneOfAnEndedSaleCanBeSold clones a sale that has ended, using
// starts_at, sells from the clone, and repeats the request under one key.
func TestCloneOfAnEndedSaleCanBeSold(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.publish(time.Hour)
	d.do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.activity+"/pause", nil)
	d.do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.activity+"/terminate", nil)
	starts := time.Now().Add(30 * time.Hour).UTC().Truncate(time.Millisecond)
	path, body := "/api/v1/admin/activities/"+s.activity+"/clone", map[string]any{"starts_at": starts}
	clone := d.do(http.StatusCreated, http.MethodPost, path, body, "Idempotency-Key", "c1")
	tr := d.traced(func() {
		if again := d.do(http.StatusCreated, http.MethodPost, path, body, "Idempotency-Key", "c1"); !bytes.Equal(again.raw, clone.raw) {
			t.Errorf("repeated: %s\nfirst: %s", again.raw, clone.raw)
		}
	})
	if tr.String() != "[] and 0 events" {
		t.Errorf("a repetition left %v", tr)
	}
	if r := d.as(auth.Operator, http.MethodPost, path, `{"shift_days":1}`, "Idempotency-Key", "c1"); r.status != 422 || r.text("code") != "idempotency-mismatch" {
		t.Errorf("another body under the key: %d %s", r.status, r.raw)
	}
	if clone.text("starts_at") != starts.Format(wire.TimeLayout) || clone.body["paused"] != false {
		t.Errorf("clone: %s", clone.raw)
	}
	d.do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+clone.text("id")+"/publish", nil)
	if n := d.number(`SELECT total FROM inventory.stock WHERE item_id = $1 AND NOT paused`, clone.id(t, "sessions", 0, "items", 0, "id")); n != 10 {
		t.Errorf("%d units of the clone are on sale", n)
	}
}

// TestClonedSeriesIsIndependent checks that a cloned series points at the clone's
// own first session, so that repeating it there continues where the copy ended.
func TestClonedSeriesIsIndependent(t *testing.T) {
	t.Parallel()
	d := setup(t).instance(inZone("America/New_York"))
	s := d.draft(time.Hour, spring)
	d.do(http.StatusOK, http.MethodPost, "/api/v1/admin/sessions/"+s.session+"/repeat", `{"until":"2026-03-09"}`)
	for _, name := range []string{"whole series", "without its first"} {
		if name == "without its first" {
			d.do(http.StatusNoContent, http.MethodDelete, "/api/v1/admin/sessions/"+s.session, nil)
		}
		clone := d.do(http.StatusCreated, http.MethodPost, "/api/v1/admin/activities/"+s.activity+"/clone", `{"shift_days":1}`)
		sessions := clone.body["sessions"].([]any)
		first := sessions[0].(map[string]any)
		if first["repeat_of"] != nil {
			t.Errorf("%s: the first repeats another: %v", name, first)
		}
		for _, v := range sessions[1:] {
			if v.(map[string]any)["repeat_of"] != first["id"] {
				t.Errorf("%s: %v does not repeat %v", name, v, first["id"])
			}
		}
		r := d.do(http.StatusOK, http.MethodPost, fmt.Sprintf("/api/v1/admin/sessions/%s/repeat", first["id"]), `{"until":"2026-03-11"}`)
		if made, had := r.body["created"].([]any), r.body["existing"].([]any); len(made) != 1 || len(had) != len(sessions)-1 {
			t.Errorf("%s: repeating the clone's first: %s", name, r.raw)
		}
	}
}

// TestWrongClones checks that a refused clone names the mistake and records
// nothing.
func TestWrongClones(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.draft(time.Hour)
	base := "/api/v1/admin/activities/"
	tr := d.traced(func() {
		for _, c := range []struct{ id, body, code, want string }{
			{s.activity, `{}`, "invalid", "one of the two"},
			{s.activity, `{"shift_days":1,"starts_at":"2031-01-01T00:00:00Z"}`, "invalid", "one of the two"},
			{s.activity, `{"shift_days":3661}`, "invalid", "3660"},
			{s.activity, `{"starts_at":"0001-01-01T00:00:00Z"}`, "invalid", "2000 to 2199"},
			{s.activity, `{"starts_at":"2199-12-31T23:30:00Z"}`, "invalid", "2000 to 2199"},
			{s.activity, `{"shift_days":1,"name":""}`, "invalid", "1 to 120 characters"},
			{"987654", `{"shift_days":1}`, "not-found", ""},
		} {
			r := d.as(auth.Operator, http.MethodPost, base+c.id+"/clone", c.body)
			if r.status < 400 || r.text("code") != c.code || !strings.Contains(string(r.raw), c.want) {
				t.Errorf("%s: %d %s, want %s …%s…", c.body, r.status, r.raw, c.code, c.want)
			}
		}
	})
	if tr.String() != "[] and 0 events" {
		t.Errorf("left %v", tr)
	}
	d.as(auth.Viewer, http.MethodPost, base+s.activity+"/clone", `{"shift_days":1}`).want(t, "a viewer cloned", http.StatusForbidden, "")
}
