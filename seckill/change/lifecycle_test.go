package change

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"stampede/inventory"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/plan"
)

// in creates a sale and brings it into a phase.
func (d *instance) in(p plan.Phase, paused bool) seckilltest.Sale {
	d.T.Helper()
	var s seckilltest.Sale
	if p == plan.PhaseDraft {
		return d.Draft(2 * time.Hour)
	}
	s = d.Publish(2 * time.Hour)
	if paused {
		d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/pause", nil)
	}
	open := func(in string) {
		d.SQL(`UPDATE seckill.sessions SET opens_at = now() + $2::interval WHERE id = $1`, s.Session, in)
		d.SQL(`UPDATE inventory.stock SET opens_at = now() + $2::interval WHERE item_id = $1`, s.Item, in)
	}
	switch p {
	case plan.PhaseFrozen:
		open("59 seconds")
	case plan.PhaseRunning:
		open("-1 second")
	case plan.PhaseEnded:
		open("-2 seconds")
		d.SQL(`UPDATE seckill.activities SET starts_at = now() - interval '1 hour', ends_at = now() - interval '1 second' WHERE id = $1`, s.Activity)
	case plan.PhaseTerminated:
		d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/terminate", nil)
	case plan.PhaseDraft, plan.PhaseScheduled:
	}
	return s
}

// tryAdmission means setting an admission rate in the table. It is not an
// action on the plan, but whether it is allowed depends on the activity's
// phase.
const tryAdmission plan.Action = "admission"

// Agreeing to oversell and repeating a session edit what an activity contains.
const (
	tryOversell plan.Action = "oversell"
	tryRepeat   plan.Action = "repeat"
)

// try requests an action on a sale.
func (d *instance) try(s seckilltest.Sale, act plan.Action) seckilltest.Reply {
	d.T.Helper()
	base := "/api/v1/admin/activities/" + s.Activity
	switch act {
	case plan.ActEdit:
		return d.As(auth.Operator, http.MethodPatch, base, `{"version":1,"limit_per_user":3}`)
	case plan.ActCorrect:
		return d.As(auth.Operator, http.MethodPatch, base, `{"version":1,"name":"Other"}`)
	case plan.ActDelete:
		return d.As(auth.Operator, http.MethodDelete, base, nil)
	case plan.ActAddStock:
		return d.As(auth.Operator, http.MethodPost, "/api/v1/admin/items/"+s.Item+"/stock", `{"add":1}`)
	case tryOversell:
		return d.As(auth.Operator, http.MethodPut, "/api/v1/admin/items/"+s.Item+"/oversell", `{"percent":10,"reason":"agreed"}`)
	case tryRepeat:
		until := time.Now().Add(50 * time.Hour).In(d.svc.cfg.Zone()).Format(time.DateOnly)
		return d.As(auth.Operator, http.MethodPost, "/api/v1/admin/sessions/"+s.Session+"/repeat", `{"last_day":"`+until+`","extend_activity":true}`)
	case tryAdmission:
		return d.As(auth.Operator, http.MethodPut, "/api/v1/admin/items/"+s.Item+"/admission", `{"per_second":5}`)
	case plan.ActPauseItem:
		return d.As(auth.Operator, http.MethodPost, "/api/v1/admin/items/"+s.Item+"/pause", nil)
	case plan.ActWriteOff:
		_ = d.Stock.Load(d.T.Context(), s.StockItem(d.T, false).ID) // units leave what decides; a draft has no stock to load
		return d.As(auth.Operator, http.MethodPost, "/api/v1/admin/items/"+s.Item+"/write-off", `{"units":1,"reason":"broken"}`)
	case plan.ActClone:
		return d.As(auth.Operator, http.MethodPost, base+"/clone", `{"shift_days":7}`)
	case plan.ActPublish, plan.ActPause, plan.ActResume, plan.ActTerminate:
		return d.As(auth.Operator, http.MethodPost, base+"/"+string(act), nil)
	case plan.ActEditOrCorrect, plan.ActMoveBackup: // not actions of their own in the table
	}
	d.T.Fatalf("no way to try %s", act)
	return seckilltest.Reply{}
}

// TestTransitionsKeepTheCheckout checks that a checkout which a newer version wrote
// keeps what this version does not know of it: both run during an upgrade.
func TestTransitionsKeepTheCheckout(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Draft(2 * time.Hour)
	d.SQL(`UPDATE seckill.activities SET checkout = checkout || '{"newer":1}' WHERE id = $1`, s.Activity)
	for _, act := range []plan.Action{plan.ActPublish, plan.ActPause, plan.ActResume, plan.ActTerminate} {
		d.try(s, act).Want(t, string(act), http.StatusOK, "")
		newer := pgtest.Read[bool](t, d.DB, `SELECT checkout ? 'newer' FROM seckill.activities WHERE id = $1`, s.Activity)
		require.Equal(t, string(act)+": the newer member is there", newer, true)
	}
}

// TestEveryTransition requests every action in every phase and compares with a
// table written independently from the rules, not with the code's own. Each
// cell starts from a new sale and checks the answer, the audit log and the
// events.
func TestEveryTransition(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	const (
		ok    = ""      // done: recorded, and announced unless it is a draft
		same  = "same"  // nothing to do: 200 with the activity unchanged
		quiet = "quiet" // done and recorded; not visible to shoppers
		none  = "not-found"
	)
	no, edit, frozen := fault.ErrTransition.Code, plan.ErrNotEditable.Code, plan.ErrFrozen.Code // 409
	columns := []struct {
		act    plan.Action
		record string // the last audit record of what is done
	}{
		{plan.ActEdit, "activity.edit"},
		{plan.ActDelete, "activity.delete"},
		{plan.ActPublish, "activity.publish"},
		{plan.ActPause, "activity.pause"},
		{plan.ActResume, "activity.resume"},
		{plan.ActTerminate, "activity.terminate"},
		{plan.ActAddStock, "item.add-stock"},
		{plan.ActClone, "item.create"},
		{tryRepeat, "session.repeat"},
		{tryOversell, "item.oversell"},
		{tryAdmission, "item.admission"},
		{plan.ActPauseItem, "item.pause"},
		{plan.ActWriteOff, "item.write-off"},
		{plan.ActCorrect, "activity.edit"},
	}
	//                                  edit, delete, publish, pause, resume, terminate, add-stock, clone, repeat, oversell, admission, pause-item, write-off, correct
	table := []struct {
		phase    plan.Phase
		paused   bool
		want     [14]string
		sentence string // what a refusal says
	}{
		{plan.PhaseDraft, false, [14]string{quiet, quiet, ok, no, no, no, no, quiet, quiet, quiet, no, no, no, quiet}, "A draft can be edited, published, cloned or deleted, nothing else."},
		{plan.PhaseScheduled, false, [14]string{ok, ok, same, ok, same, ok, ok, quiet, ok, ok, ok, ok, no, ok}, "A scheduled activity can be edited, paused, stopped item by item, terminated, given more or fewer units, cloned or deleted, nothing else."},
		{plan.PhaseScheduled, true, [14]string{ok, ok, same, same, ok, ok, ok, quiet, ok, ok, ok, ok, no, ok}, "A paused scheduled activity can be edited, resumed, stopped item by item, terminated, given more or fewer units, cloned or deleted, nothing else."},
		{plan.PhaseFrozen, false, [14]string{frozen, frozen, same, ok, same, ok, ok, quiet, frozen, frozen, ok, ok, ok, ok}, "An activity within 60 s of its opening can be corrected, paused, stopped item by item, terminated, given more or fewer units, written off unit by unit or cloned, nothing else."},
		{plan.PhaseFrozen, true, [14]string{frozen, frozen, same, same, ok, ok, ok, quiet, frozen, frozen, ok, ok, ok, ok}, "A paused activity within 60 s of its opening can be corrected, resumed, stopped item by item, terminated, given more or fewer units, written off unit by unit or cloned, nothing else."},
		{plan.PhaseRunning, false, [14]string{edit, edit, same, ok, same, ok, ok, quiet, edit, edit, ok, ok, ok, ok}, "A running activity can be corrected, paused, stopped item by item, terminated, given more or fewer units, written off unit by unit or cloned, nothing else."},
		{plan.PhaseRunning, true, [14]string{edit, edit, same, same, ok, ok, ok, quiet, edit, edit, ok, ok, ok, ok}, "A paused running activity can be corrected, resumed, stopped item by item, terminated, given more or fewer units, written off unit by unit or cloned, nothing else."},
		{plan.PhaseEnded, false, [14]string{edit, edit, no, no, no, no, no, quiet, edit, edit, no, no, no, edit}, "An ended activity can only be cloned."},
		{plan.PhaseEnded, true, [14]string{edit, edit, no, no, no, no, no, quiet, edit, edit, no, no, no, edit}, "An ended activity can only be cloned."},
		{plan.PhaseTerminated, false, [14]string{edit, edit, no, no, no, same, no, quiet, edit, edit, no, no, no, edit}, "A terminated activity can only be cloned."},
		{plan.PhaseTerminated, true, [14]string{edit, edit, no, no, no, same, no, quiet, edit, edit, no, no, no, edit}, "A terminated activity can only be cloned."},
	}
	for _, row := range table {
		var s seckilltest.Sale
		for i, column := range columns {
			want := row.want[i]
			if s == (seckilltest.Sale{}) {
				s = d.in(row.phase, row.paused)
				if row.phase >= plan.PhaseRunning {
					// This table does not test the transitions that time makes.
					require.NoError(t, d.svc.advanceAll(t.Context()))
				}
				require.NoError(t, d.items.Refresh(t.Context()))
			}
			before := d.As(auth.Viewer, http.MethodGet, "/api/v1/admin/activities/"+s.Activity, nil)
			var r seckilltest.Reply
			tr := d.Traced(func() { r = d.try(s, column.act) })
			untouched := tr.String() == "[] and 0 events"
			done := r.Status < 300 && len(tr.Actions) > 0 && tr.Actions[len(tr.Actions)-1] == column.record
			var right bool
			switch want {
			case ok:
				right = done && tr.Events > 0
			case quiet:
				right = done && tr.Events == 0
			case same:
				right = r.Status == http.StatusOK && bytes.Equal(r.Raw, before.Raw) && untouched
			case none:
				right = r.Status == http.StatusNotFound && r.Text("code") == none && untouched
			default:
				said := r.Text("detail") == row.sentence || column.act == plan.ActEdit && strings.HasPrefix(r.Text("detail"), row.sentence+" From 60 s before") || column.act == tryAdmission
				right = r.Status == http.StatusConflict && r.Text("code") == want && said && untouched
			}
			if !right {
				t.Errorf("%s %s (paused %v): %d %s, want %q %q, left %v", plan.PhaseNames[row.phase], column.act, row.paused, r.Status, r.Raw, want, row.sentence, tr)
			}
			if !right || !untouched {
				s = seckilltest.Sale{} // a refusal leaves the sale as the next action needs it
			}
		}
	}
}

// TestContentsAreFrozenWithTheirActivity checks that sessions and items follow
// the rule of their activity.
func TestContentsAreFrozenWithTheirActivity(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	for phase, want := range map[plan.Phase]string{plan.PhaseFrozen: plan.ErrFrozen.Code, plan.PhaseRunning: plan.ErrNotEditable.Code, plan.PhaseEnded: plan.ErrNotEditable.Code, plan.PhaseTerminated: plan.ErrNotEditable.Code} {
		s := d.in(phase, false)
		item := `{"session_id":"` + s.Session + `","sku":"b","title":"B","list_price":{"amount":1,"currency":"CNY"},"sale_price":{"amount":1,"currency":"CNY"},"stock":1}`
		session := `{"activity_id":"` + s.Activity + `","name":"x","opens_at":"2026-01-01T00:00:00Z","closes_at":"2026-01-02T00:00:00Z"}`
		for _, try := range [][3]string{
			{http.MethodPatch, "sessions/" + s.Session, `{"version":1,"opens_at":"2026-01-01T00:00:00Z"}`},
			{http.MethodPatch, "sessions/" + s.Session, `{"version":1,"reservation_opens_at":"2026-01-01T00:00:00Z","reservation_closes_at":"2026-01-01T01:00:00Z"}`},
			{http.MethodPatch, "activities/" + s.Activity, `{"version":1,"human_check":"pow"}`},
			{http.MethodDelete, "sessions/" + s.Session},
			{http.MethodPatch, "items/" + s.Item, `{"version":1,"title":"x","stock":9}`},
			{http.MethodDelete, "items/" + s.Item},
			{http.MethodPost, "items", item},
			{http.MethodPost, "sessions", session},
			{http.MethodPost, "sessions/" + s.Session + "/repeat", `{"last_day":"2026-01-01"}`},
			{http.MethodPut, "items/" + s.Item + "/oversell", `{"percent":1,"reason":"x"}`},
		} {
			var body any
			if try[2] != "" {
				body = try[2]
			}
			d.As(auth.Operator, try[0], "/api/v1/admin/"+try[1], body).Want(t, fmt.Sprint(plan.PhaseNames[phase], try), http.StatusConflict, want)
		}
	}
}

// TestActionsTakeEffectBeforeTheyAreAnswered checks that Redis already decides
// by a pause, a resumption or a termination when the operator gets the answer.
func TestActionsTakeEffectBeforeTheyAreAnswered(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.Publish(-time.Minute)
	require.NoError(t, d.Stock.Load(t.Context(), s.StockItem(t, false).ID))
	base, item := "/api/v1/admin/activities/"+s.Activity, s.StockItem(t, false)
	gate := func() inventory.Gate {
		var into inventory.Decision
		require.NoError(t, d.Stock.Reserve(t.Context(), item, d.epoch(s), []inventory.Attempt{{User: 5, No: ids.NewFor(5), Quantity: 1}}, &into))
		return into.Gate
	}
	d.Do(http.StatusOK, http.MethodPost, base+"/pause", nil)
	require.Equal(t, "gate of a rush after the answer to the pause", gate(), inventory.Paused)
	d.Do(http.StatusOK, http.MethodPost, base+"/resume", nil)
	require.Equal(t, "gate of a rush after the answer to the resumption", gate(), inventory.Open)
	d.Do(http.StatusOK, http.MethodPost, base+"/terminate", nil)
	require.Equal(t, "gate of a rush after the answer to the termination", gate(), inventory.Ended)
	require.Equal(t, "closed windows", d.Number(`SELECT count(*) FROM inventory.stock WHERE item_id = $1 AND closes_at <= now() AND NOT paused`, s.Item), 1)
	require.Equal(t, "what shoppers see", d.Do(http.StatusOK, http.MethodGet, "/api/v1/sessions/"+s.Session, nil).Text("status"), "ended")
	never := d.Publish(time.Hour)
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+never.Activity+"/terminate", nil)
	require.Equal(t, "pauses of an item that never opened", d.Number(`SELECT count(*) FROM inventory.stock WHERE item_id = $1 AND paused`, never.Item), 1)
}

// TestOneInstanceMovesAnActivity runs ten instances concurrently and expects
// each transition once.
func TestOneInstanceMovesAnActivity(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	for range 5 {
		d.in(plan.PhaseEnded, false)
	}
	tr := d.Traced(func() {
		var g errgroup.Group
		for range 10 {
			g.Go(func() error { return d.svc.advanceAll(t.Context()) })
		}
		require.NoError(t, g.Wait())
	})
	slices.Sort(tr.Actions)
	want := slices.Concat(slices.Repeat([]string{"activity.end"}, 5), slices.Repeat([]string{"activity.start"}, 5))
	require.Equal(t, "what was left", tr, seckilltest.Trace{Actions: want, Events: 10})
}
