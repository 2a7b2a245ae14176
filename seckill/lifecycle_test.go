package seckill

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"stampede/inventory"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
)

// in creates a sale and brings it into a phase.
func (d *instance) in(p phase, paused bool) sale {
	d.T.Helper()
	var s sale
	if p == phaseDraft {
		return d.draft(2 * time.Hour)
	}
	s = d.publish(2 * time.Hour)
	if paused {
		d.do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.activity+"/pause", nil)
	}
	open := func(in string) {
		d.sql(`UPDATE seckill.sessions SET opens_at = now() + $2::interval WHERE id = $1`, s.session, in)
		d.sql(`UPDATE inventory.stock SET opens_at = now() + $2::interval WHERE item_id = $1`, s.item, in)
	}
	switch p {
	case phaseFrozen:
		open("59 seconds")
	case phaseRunning:
		open("-1 second")
	case phaseEnded:
		open("-2 seconds")
		d.sql(`UPDATE seckill.activities SET starts_at = now() - interval '1 hour', ends_at = now() - interval '1 second' WHERE id = $1`, s.activity)
	case phaseTerminated:
		d.do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.activity+"/terminate", nil)
	case phaseDraft, phaseScheduled:
	}
	return s
}

// tryAdmission means setting an admission rate in the table. It is not an
// action on the plan, but whether it is allowed depends on the activity's
// phase.
const tryAdmission action = "admission"

// Agreeing to oversell and repeating a session edit what an activity contains.
const (
	tryOversell action = "oversell"
	tryRepeat   action = "repeat"
)

// try requests an action on a sale.
func (d *instance) try(s sale, act action) reply {
	d.T.Helper()
	base := "/api/v1/admin/activities/" + s.activity
	switch act {
	case actEdit:
		return d.as(auth.Operator, http.MethodPatch, base, `{"version":1,"limit_per_user":3}`)
	case actCorrect:
		return d.as(auth.Operator, http.MethodPatch, base, `{"version":1,"name":"Other"}`)
	case actDelete:
		return d.as(auth.Operator, http.MethodDelete, base, nil)
	case actAddStock:
		return d.as(auth.Operator, http.MethodPost, "/api/v1/admin/items/"+s.item+"/stock", `{"add":1}`)
	case tryOversell:
		return d.as(auth.Operator, http.MethodPut, "/api/v1/admin/items/"+s.item+"/oversell", `{"percent":10,"reason":"agreed"}`)
	case tryRepeat:
		until := time.Now().Add(50 * time.Hour).In(d.svc.cfg.Zone()).Format(dayLayout)
		return d.as(auth.Operator, http.MethodPost, "/api/v1/admin/sessions/"+s.session+"/repeat", `{"until":"`+until+`","extend_activity":true}`)
	case tryAdmission:
		return d.as(auth.Operator, http.MethodPut, "/api/v1/admin/items/"+s.item+"/admission", `{"per_second":5}`)
	case actPauseItem:
		return d.as(auth.Operator, http.MethodPost, "/api/v1/admin/items/"+s.item+"/pause", nil)
	case actWriteOff:
		_ = d.Stock.Load(d.T.Context(), s.stockItem(d.T, false).ID) // units leave what decides; a draft has no stock to load
		return d.as(auth.Operator, http.MethodPost, "/api/v1/admin/items/"+s.item+"/write-off", `{"units":1,"reason":"broken"}`)
	case actClone:
		return d.as(auth.Operator, http.MethodPost, base+"/clone", `{"shift_days":7}`)
	case actPublish, actPause, actResume, actTerminate:
		return d.as(auth.Operator, http.MethodPost, base+"/"+string(act), nil)
	case actAmend, actMoveBackup: // not actions of their own in the table
	}
	d.T.Fatalf("no way to try %s", act)
	return reply{}
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
	no, edit, frozen := fault.ErrTransition.Code, errNotEditable.Code, errFrozen.Code // 409
	columns := []struct {
		act    action
		record string // the last audit record of what is done
	}{
		{actEdit, "activity.edit"},
		{actDelete, "activity.delete"},
		{actPublish, "activity.publish"},
		{actPause, "activity.pause"},
		{actResume, "activity.resume"},
		{actTerminate, "activity.terminate"},
		{actAddStock, "item.add-stock"},
		{actClone, "item.create"},
		{tryRepeat, "session.repeat"},
		{tryOversell, "item.oversell"},
		{tryAdmission, "item.admission"},
		{actPauseItem, "item.pause"},
		{actWriteOff, "item.write-off"},
		{actCorrect, "activity.edit"},
	}
	//                                  edit, delete, publish, pause, resume, terminate, add-stock, clone, repeat, oversell, admission, pause-item, write-off, correct
	table := []struct {
		phase    phase
		paused   bool
		want     [14]string
		sentence string // what a refusal says
	}{
		{phaseDraft, false, [14]string{quiet, quiet, ok, no, no, no, no, quiet, quiet, quiet, no, no, no, quiet}, "A draft can be edited, published, cloned or deleted, nothing else."},
		{phaseScheduled, false, [14]string{ok, ok, same, ok, same, ok, ok, quiet, ok, ok, ok, ok, no, ok}, "A scheduled activity can be edited, paused, stopped item by item, terminated, given more or fewer units, cloned or deleted, nothing else."},
		{phaseScheduled, true, [14]string{ok, ok, same, same, ok, ok, ok, quiet, ok, ok, ok, ok, no, ok}, "A paused scheduled activity can be edited, resumed, stopped item by item, terminated, given more or fewer units, cloned or deleted, nothing else."},
		{phaseFrozen, false, [14]string{frozen, frozen, same, ok, same, ok, ok, quiet, frozen, frozen, ok, ok, ok, ok}, "An activity within 60 s of its opening can be corrected, paused, stopped item by item, terminated, given more or fewer units, written off unit by unit or cloned, nothing else."},
		{phaseFrozen, true, [14]string{frozen, frozen, same, same, ok, ok, ok, quiet, frozen, frozen, ok, ok, ok, ok}, "A paused activity within 60 s of its opening can be corrected, resumed, stopped item by item, terminated, given more or fewer units, written off unit by unit or cloned, nothing else."},
		{phaseRunning, false, [14]string{edit, edit, same, ok, same, ok, ok, quiet, edit, edit, ok, ok, ok, ok}, "A running activity can be corrected, paused, stopped item by item, terminated, given more or fewer units, written off unit by unit or cloned, nothing else."},
		{phaseRunning, true, [14]string{edit, edit, same, same, ok, ok, ok, quiet, edit, edit, ok, ok, ok, ok}, "A paused running activity can be corrected, resumed, stopped item by item, terminated, given more or fewer units, written off unit by unit or cloned, nothing else."},
		{phaseEnded, false, [14]string{edit, edit, no, no, no, no, no, quiet, edit, edit, no, no, no, edit}, "An ended activity can only be cloned."},
		{phaseEnded, true, [14]string{edit, edit, no, no, no, no, no, quiet, edit, edit, no, no, no, edit}, "An ended activity can only be cloned."},
		{phaseTerminated, false, [14]string{edit, edit, no, no, no, same, no, quiet, edit, edit, no, no, no, edit}, "A terminated activity can only be cloned."},
		{phaseTerminated, true, [14]string{edit, edit, no, no, no, same, no, quiet, edit, edit, no, no, no, edit}, "A terminated activity can only be cloned."},
	}
	for _, row := range table {
		var s sale
		for i, column := range columns {
			want := row.want[i]
			if s == (sale{}) {
				s = d.in(row.phase, row.paused)
				if row.phase >= phaseRunning {
					// This table does not test the transitions that time makes.
					require.NoError(t, d.svc.advanceAll(t.Context()))
				}
				require.NoError(t, d.svc.Catalogue.Refresh(t.Context()))
			}
			before := d.as(auth.Viewer, http.MethodGet, "/api/v1/admin/activities/"+s.activity, nil)
			var r reply
			tr := d.traced(func() { r = d.try(s, column.act) })
			untouched := tr.String() == "[] and 0 events"
			done := r.status < 300 && len(tr.actions) > 0 && tr.actions[len(tr.actions)-1] == column.record
			var right bool
			switch want {
			case ok:
				right = done && tr.events > 0
			case quiet:
				right = done && tr.events == 0
			case same:
				right = r.status == http.StatusOK && bytes.Equal(r.raw, before.raw) && untouched
			case none:
				right = r.status == http.StatusNotFound && r.text("code") == none && untouched
			default:
				said := r.text("detail") == row.sentence || column.act == actEdit && strings.HasPrefix(r.text("detail"), row.sentence+" From 60 s before") || column.act == tryAdmission
				right = r.status == http.StatusConflict && r.text("code") == want && said && untouched
			}
			if !right {
				t.Errorf("%s %s (paused %v): %d %s, want %q %q, left %v", phaseNames[row.phase], column.act, row.paused, r.status, r.raw, want, row.sentence, tr)
			}
			if !right || !untouched {
				s = sale{} // a refusal leaves the sale as the next action needs it
			}
		}
	}
}

// TestContentsAreFrozenWithTheirActivity checks that sessions and items follow
// the rule of their activity.
func TestContentsAreFrozenWithTheirActivity(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	for phase, want := range map[phase]string{phaseFrozen: errFrozen.Code, phaseRunning: errNotEditable.Code, phaseEnded: errNotEditable.Code, phaseTerminated: errNotEditable.Code} {
		s := d.in(phase, false)
		item := `{"session_id":"` + s.session + `","sku":"b","title":"B","list_price":{"amount":1,"currency":"CNY"},"sale_price":{"amount":1,"currency":"CNY"},"stock":1}`
		session := `{"activity_id":"` + s.activity + `","name":"x","opens_at":"2026-01-01T00:00:00Z","closes_at":"2026-01-02T00:00:00Z"}`
		for _, try := range [][3]string{
			{http.MethodPatch, "sessions/" + s.session, `{"version":1,"opens_at":"2026-01-01T00:00:00Z"}`},
			{http.MethodPatch, "sessions/" + s.session, `{"version":1,"reservation_opens_at":"2026-01-01T00:00:00Z","reservation_closes_at":"2026-01-01T01:00:00Z"}`},
			{http.MethodPatch, "activities/" + s.activity, `{"version":1,"human_check":"pow"}`},
			{http.MethodDelete, "sessions/" + s.session},
			{http.MethodPatch, "items/" + s.item, `{"version":1,"title":"x","stock":9}`},
			{http.MethodDelete, "items/" + s.item},
			{http.MethodPost, "items", item},
			{http.MethodPost, "sessions", session},
			{http.MethodPost, "sessions/" + s.session + "/repeat", `{"until":"2026-01-01"}`},
			{http.MethodPut, "items/" + s.item + "/oversell", `{"percent":1,"reason":"x"}`},
		} {
			var body any
			if try[2] != "" {
				body = try[2]
			}
			if r := d.as(auth.Operator, try[0], "/api/v1/admin/"+try[1], body); r.status != http.StatusConflict || r.text("code") != want {
				t.Errorf("%s: %s %s: %d %s", phaseNames[phase], try[0], try[1], r.status, r.raw)
			}
		}
	}
}

// TestActionsTakeEffectBeforeTheyAreAnswered checks that Redis already decides
// by a pause, a resumption or a termination when the operator gets the answer.
func TestActionsTakeEffectBeforeTheyAreAnswered(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.publish(-time.Minute)
	require.NoError(t, d.Stock.Load(t.Context(), s.stockItem(t, false).ID))
	base, item := "/api/v1/admin/activities/"+s.activity, s.stockItem(t, false)
	gate := func() inventory.Gate {
		var into inventory.Decision
		require.NoError(t, d.Stock.Reserve(t.Context(), item, d.epoch(s), []inventory.Attempt{{User: 5, No: ids.NewFor(5), Quantity: 1}}, &into))
		return into.Gate
	}
	d.do(http.StatusOK, http.MethodPost, base+"/pause", nil)
	require.Equal(t, "gate of a rush after the answer to the pause", gate(), inventory.Paused)
	d.do(http.StatusOK, http.MethodPost, base+"/resume", nil)
	require.Equal(t, "gate of a rush after the answer to the resumption", gate(), inventory.Open)
	d.do(http.StatusOK, http.MethodPost, base+"/terminate", nil)
	require.Equal(t, "gate of a rush after the answer to the termination", gate(), inventory.Ended)
	if n := d.number(`SELECT count(*) FROM inventory.stock WHERE item_id = $1 AND closes_at <= now() AND NOT paused`, s.item); n != 1 {
		t.Error("the window is still open")
	}
	if r := d.do(http.StatusOK, http.MethodGet, "/api/v1/sessions/"+s.session, nil); r.text("status") != "ended" {
		t.Errorf("shoppers see %s", r.raw)
	}
	never := d.publish(time.Hour)
	d.do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+never.activity+"/terminate", nil)
	if n := d.number(`SELECT count(*) FROM inventory.stock WHERE item_id = $1 AND paused`, never.item); n != 1 {
		t.Error("an item that never opened can still be bought after its activity was terminated")
	}
}

// TestOneInstanceMovesAnActivity runs ten instances concurrently and expects
// each transition once.
func TestOneInstanceMovesAnActivity(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	for range 5 {
		d.in(phaseEnded, false)
	}
	tr := d.traced(func() {
		var g errgroup.Group
		for range 10 {
			g.Go(func() error { return d.svc.advanceAll(t.Context()) })
		}
		require.NoError(t, g.Wait())
	})
	slices.Sort(tr.actions)
	want := slices.Concat(slices.Repeat([]string{"activity.end"}, 5), slices.Repeat([]string{"activity.start"}, 5))
	if !slices.Equal(tr.actions, want) || tr.events != 10 {
		t.Errorf("left %v", tr)
	}
}

// TestLifecycleWorker checks that the worker starts a due activity without a
// request.
func TestLifecycleWorker(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	s := d.in(phaseRunning, false)
	defer d.Run(d.svc.runLifecycle)()
	eventually(t, "the activity runs", func() bool {
		return d.number(`SELECT count(*) FROM seckill.activities WHERE id = $1 AND status = 'running'`, s.activity) == 1
	})
}

// TestPermitAgreesWithItsSentence checks that in every phase an action is
// permitted exactly if the refusal of another action lists it as possible.
func TestPermitAgreesWithItsSentence(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom([]phase{phaseDraft, phaseScheduled, phaseFrozen, phaseRunning, phaseEnded, phaseTerminated}).Draw(t, "phase")
		paused := rapid.Bool().Draw(t, "paused")
		for _, w := range participles {
			_, can, _ := strings.Cut(possibleSentence(p, paused)[0], " can ")
			named := strings.Contains(can, w.word[0])
			if permitted := permit(p, paused, w.act) == nil; permitted != named {
				t.Fatalf("%s permitted %v, named %v: %s", w.act, permitted, named, possibleSentence(p, paused))
			}
		}
		if p == phaseEnded || p == phaseTerminated {
			if got := possible(p, paused); !slices.Equal(got, []action{actClone}) {
				t.Fatalf("at the end the activity can still be changed: %v", got)
			}
		}
	})
}
