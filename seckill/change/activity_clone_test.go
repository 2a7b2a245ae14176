package change

import (
	"fmt"
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

// inZone sets the shop's time zone.
func inZone(name string) func(*plan.Config, *Deps) {
	return func(cfg *plan.Config, _ *Deps) { cfg.TimeZone = name }
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
	s := d.Draft(time.Hour, spring)
	d.Do(http.StatusOK, http.MethodPut, "/api/v1/admin/items/"+s.Item+"/oversell", `{"percent":20,"reason":"contract 7"}`)
	base := "/api/v1/admin/activities/" + s.Activity
	original := d.Do(http.StatusOK, http.MethodGet, base, nil)
	var clone seckilltest.Reply
	d.leaves("cloning", "[activity.clone session.create item.create] and 0 events", func() {
		clone = d.Do(http.StatusCreated, http.MethodPost, base+"/clone", `{"name":"Again","shift_days":10}`)
	})
	kept := d.Do(http.StatusOK, http.MethodGet, "/api/v1/admin/activities/"+clone.Text("id"), nil)
	require.Equal(t, "what was kept", string(kept.Raw), string(clone.Raw))
	session := clone.Doc["sessions"].([]any)[0].(map[string]any)
	for field, want := range map[string]string{
		"starts_at": "2026-03-11T04:00:00.000Z", "ends_at": "2026-03-30T04:00:00.000Z", "name": "Again", "status": "draft",
	} {
		require.Equal(t, field, clone.Text(field), want)
	}
	// Still 10:00 to 12:00 local time, an hour earlier in UTC.
	window := []any{session["opens_at"], session["closes_at"]}
	require.Equal(t, "window of the clone", window, []any{"2026-03-16T14:00:00.000Z", "2026-03-16T16:00:00.000Z"})
	require.Equal(t, "the clone", rules(clone.Doc), rules(original.Doc))
	require.Equal(t, "records of what it is a clone of", d.Number(`SELECT count(*) FROM platform.audit WHERE action = 'activity.clone' AND actor = 72
		AND subject = $1 AND detail->'after'->>'of' = $2`, "activity "+clone.Text("id"), "activity "+s.Activity), 1)
	// The original is as it was.
	require.Equal(t, "the original", string(d.Do(http.StatusOK, http.MethodGet, base, nil).Raw), string(original.Raw))
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
	s := d.Publish(time.Hour)
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/pause", nil)
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/terminate", nil)
	starts := time.Now().Add(30 * time.Hour).UTC().Truncate(time.Millisecond)
	path, body := "/api/v1/admin/activities/"+s.Activity+"/clone", map[string]any{"starts_at": starts}
	clone := d.Do(http.StatusCreated, http.MethodPost, path, body, "Idempotency-Key", "c1")
	d.leaves("a repetition", nothing, func() {
		again := d.Do(http.StatusCreated, http.MethodPost, path, body, "Idempotency-Key", "c1")
		require.Equal(t, "a repetition", string(again.Raw), string(clone.Raw))
	})
	other := d.As(auth.Operator, http.MethodPost, path, `{"shift_days":1}`, "Idempotency-Key", "c1")
	other.Want(t, "another body under the key", 422, "idempotency-mismatch")
	require.Equal(t, "start of the clone", clone.Text("starts_at"), starts.Format(wire.TimeLayout))
	require.Equal(t, "pause of the clone", clone.Doc["paused"], false)
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+clone.Text("id")+"/publish", nil)
	item := clone.ID(t, "sessions", 0, "items", 0, "id")
	require.Equal(t, "units of the clone on sale", d.Number(`SELECT total FROM inventory.stock WHERE item_id = $1 AND NOT paused`, item), 10)
}

// TestClonedSeriesIsIndependent checks that a cloned series points at the clone's
// own first session, so that repeating it there continues where the copy ended.
func TestClonedSeriesIsIndependent(t *testing.T) {
	t.Parallel()
	d := setup(t).instance(inZone("America/New_York"))
	s := d.Draft(time.Hour, spring)
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/sessions/"+s.Session+"/repeat", `{"last_day":"2026-03-09"}`)
	for _, name := range []string{"whole series", "without its first"} {
		if name == "without its first" {
			d.Do(http.StatusNoContent, http.MethodDelete, "/api/v1/admin/sessions/"+s.Session, nil)
		}
		clone := d.Do(http.StatusCreated, http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/clone", `{"shift_days":1}`)
		sessions := clone.Doc["sessions"].([]any)
		first := sessions[0].(map[string]any)
		require.Equal(t, name+": what the first repeats", first["repeat_of"], nil)
		for _, v := range sessions[1:] {
			require.Equal(t, name, v.(map[string]any)["repeat_of"], first["id"])
		}
		r := d.Do(http.StatusOK, http.MethodPost, fmt.Sprintf("/api/v1/admin/sessions/%s/repeat", first["id"]), `{"last_day":"2026-03-11"}`)
		if made, had := r.Doc["created"].([]any), r.Doc["existing"].([]any); len(made) != 1 || len(had) != len(sessions)-1 {
			t.Errorf("%s: repeating the clone's first: %s", name, r.Raw)
		}
	}
	// Sessions that move past midnight, as their activity does not, are repeated from their own days.
	late := d.Do(http.StatusCreated, http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/clone", `{"starts_at":"2026-04-01T19:00:00Z"}`)
	r := d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/sessions/"+late.ID(t, "sessions", 0, "id")+"/repeat", `{"last_day":"2026-04-11"}`)
	require.Equal(t, "days of sessions from 01:00", []any{len(r.Doc["created"].([]any)), len(r.Doc["existing"].([]any))}, []any{1, 2})
}

// TestWrongClones checks that a refused clone names the mistake and records
// nothing.
func TestWrongClones(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Draft(time.Hour)
	base := "/api/v1/admin/activities/"
	d.leaves("wrong clones", nothing, func() {
		for _, c := range []struct{ id, body, code, want string }{
			{s.Activity, `{}`, "invalid", "one of the two"},
			{s.Activity, `{"shift_days":1,"starts_at":"2031-01-01T00:00:00Z"}`, "invalid", "one of the two"},
			{s.Activity, `{"shift_days":3661}`, "invalid", "3660"},
			{s.Activity, `{"starts_at":"0001-01-01T00:00:00Z"}`, "invalid", "2000 to 2199"},
			{s.Activity, `{"starts_at":"2199-12-31T23:30:00Z"}`, "invalid", "2000 to 2199"},
			{s.Activity, `{"shift_days":1,"name":""}`, "invalid", "1 to 120 characters"},
			{"987654", `{"shift_days":1}`, "not-found", ""},
		} {
			d.As(auth.Operator, http.MethodPost, base+c.id+"/clone", c.body).Want(t, c.body, statusOf[c.code], c.code, c.want)
		}
	})
	d.As(auth.Viewer, http.MethodPost, base+s.Activity+"/clone", `{"shift_days":1}`).Want(t, "a viewer cloned", http.StatusForbidden, "")
}
