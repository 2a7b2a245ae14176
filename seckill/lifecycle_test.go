package seckill

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"stampede/inventory"
	"stampede/platform/auth"
	"stampede/platform/ids"
)

// in brings a new sale into a phase.
func (d *desk) in(p phase, paused bool) sale {
	d.t.Helper()
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

// try asks for an action on a sale.
func (d *desk) try(s sale, act action) reply {
	d.t.Helper()
	base := "/api/v1/admin/activities/" + s.activity
	switch act {
	case actEdit:
		return d.as(auth.Operator, http.MethodPatch, base, `{"version":1,"name":"Other"}`)
	case actDelete:
		return d.as(auth.Operator, http.MethodDelete, base, nil)
	case actAddStock:
		return d.as(auth.Operator, http.MethodPost, "/api/v1/admin/items/"+s.item+"/stock", `{"add":1}`)
	case actPublish, actPause, actResume, actTerminate:
		return d.as(auth.Operator, http.MethodPost, base+"/"+string(act), nil)
	}
	d.t.Fatalf("no way to try %s", act)
	return reply{}
}

// TestEveryTransition asks for every action in every phase and compares with a
// table written down by hand from the rules, not with the code's own.
func TestEveryTransition(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	const ok, no, edit, frozen = "", codeForbiddenTransition, codeNotEditable, codeFrozen
	acts := []action{actEdit, actDelete, actPublish, actPause, actResume, actTerminate, actAddStock}
	table := []struct {
		phase    phase
		paused   bool
		want     [7]string // in the order of acts
		sentence string    // what a refusal says
	}{
		{phaseDraft, false, [7]string{ok, ok, ok, no, no, no, no}, "A draft can be edited, published or deleted, nothing else."},
		{phaseScheduled, false, [7]string{ok, ok, no, ok, no, ok, ok}, "A scheduled activity can be edited, paused, terminated, given more stock or deleted, nothing else."},
		{phaseScheduled, true, [7]string{ok, ok, no, no, ok, ok, ok}, "A paused scheduled activity can be edited, resumed, terminated, given more stock or deleted, nothing else."},
		{phaseFrozen, false, [7]string{frozen, frozen, no, ok, frozen, ok, frozen}, "An activity within 60 s of its opening can be paused or terminated, nothing else."},
		{phaseFrozen, true, [7]string{frozen, frozen, no, no, frozen, ok, frozen}, "A paused activity within 60 s of its opening can only be terminated."},
		{phaseRunning, false, [7]string{edit, edit, no, ok, no, ok, ok}, "A running activity can be paused, terminated or given more stock, nothing else."},
		{phaseRunning, true, [7]string{edit, edit, no, no, ok, ok, ok}, "A paused running activity can be resumed, terminated or given more stock, nothing else."},
		{phaseEnded, false, [7]string{edit, edit, no, no, no, no, no}, "An ended activity can only be read."},
		{phaseTerminated, false, [7]string{edit, edit, no, no, no, no, no}, "A terminated activity can only be read."},
	}
	for _, row := range table {
		for i, act := range acts {
			s := d.in(row.phase, row.paused)
			var r reply
			tr := d.traced(func() { r = d.try(s, act) })
			if row.want[i] == ok {
				// The move that time made, if any, is recorded with it.
				own := len(tr.actions) > 0 && strings.HasSuffix(tr.actions[len(tr.actions)-1], "."+string(act))
				if r.status >= 300 || !own || tr.events == 0 && row.phase != phaseDraft {
					t.Errorf("%s %s (paused %v): %d %s, left %v", phaseNames[row.phase], act, row.paused, r.status, r.raw, tr)
				}
				continue
			}
			if r.status != http.StatusConflict || r.text("code") != row.want[i] || r.text("detail") != row.sentence || tr.String() != "[] and 0 events" {
				t.Errorf("%s %s (paused %v): %d %s, want %s %q, left %v", phaseNames[row.phase], act, row.paused, r.status, r.raw, row.want[i], row.sentence, tr)
			}
		}
	}
}

// TestContentsAreFrozenWithTheirActivity: sessions and items follow the rule
// of their activity.
func TestContentsAreFrozenWithTheirActivity(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	for phase, want := range map[phase]string{phaseFrozen: codeFrozen, phaseRunning: codeNotEditable, phaseEnded: codeNotEditable, phaseTerminated: codeNotEditable} {
		s := d.in(phase, false)
		item := `{"session_id":"` + s.session + `","sku":"b","title":"B","list_price":{"amount":1,"currency":"CNY"},"sale_price":{"amount":1,"currency":"CNY"},"stock":1}`
		session := `{"activity_id":"` + s.activity + `","name":"x","opens_at":"2026-01-01T00:00:00Z","closes_at":"2026-01-02T00:00:00Z"}`
		for _, try := range [][3]string{
			{http.MethodPatch, "sessions/" + s.session, `{"version":1,"name":"x"}`},
			{http.MethodDelete, "sessions/" + s.session},
			{http.MethodPatch, "items/" + s.item, `{"version":1,"title":"x"}`},
			{http.MethodDelete, "items/" + s.item},
			{http.MethodPost, "items", item},
			{http.MethodPost, "sessions", session},
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

// TestActionsTakeEffectBeforeTheyAreAnswered: pause, resumption and termination
// are what Redis decides by when the operator sees the answer.
func TestActionsTakeEffectBeforeTheyAreAnswered(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	s := d.publish(-time.Minute)
	if err := d.stock.Load(t.Context(), s.stockItem(t, false).ID); err != nil {
		t.Fatal(err)
	}
	base, item := "/api/v1/admin/activities/"+s.activity, s.stockItem(t, false)
	gate := func() inventory.Gate {
		var into inventory.Decision
		err := d.stock.Reserve(t.Context(), item, d.epoch(s), []inventory.Attempt{{User: 5, No: ids.NewFor(5), Quantity: 1}}, &into)
		if err != nil {
			t.Fatal(err)
		}
		return into.Gate
	}
	d.do(http.StatusOK, http.MethodPost, base+"/pause", nil)
	if g := gate(); g != inventory.Paused {
		t.Errorf("a rush after the pause was answered meets gate %v", g)
	}
	d.do(http.StatusOK, http.MethodPost, base+"/resume", nil)
	if g := gate(); g != inventory.Open {
		t.Errorf("a rush after the resumption was answered meets gate %v", g)
	}
	d.do(http.StatusOK, http.MethodPost, base+"/terminate", nil)
	if g := gate(); g != inventory.Ended {
		t.Errorf("a rush after the termination was answered meets gate %v", g)
	}
	if n := d.number(`SELECT count(*) FROM inventory.stock WHERE item_id = $1 AND closes_at <= now() AND NOT paused`, s.item); n != 1 {
		t.Error("the window is still open")
	}
	if r := d.do(http.StatusOK, http.MethodGet, "/api/v1/sessions/"+s.session, nil); r.text("status") != shopEnded {
		t.Errorf("shoppers see %s", r.raw)
	}
}

// TestOneInstanceMovesAnActivity: ten instances at once make each transition
// once.
func TestOneInstanceMovesAnActivity(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	for range 5 {
		d.in(phaseEnded, false)
	}
	tr := d.traced(func() {
		var g errgroup.Group
		for range 10 {
			g.Go(func() error { return d.svc.advanceAll(t.Context()) })
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
	})
	slices.Sort(tr.actions)
	want := slices.Concat(slices.Repeat([]string{"activity.end"}, 5), slices.Repeat([]string{"activity.start"}, 5))
	if !slices.Equal(tr.actions, want) || tr.events != 10 {
		t.Errorf("left %v", tr)
	}
}

// TestLifecycleWorker starts what is due without being asked.
func TestLifecycleWorker(t *testing.T) {
	t.Parallel()
	d := newYard(t).desk()
	s := d.in(phaseRunning, false)
	defer d.running(d.svc.runLifecycle)()
	eventually(t, "the activity runs", func() bool {
		return d.number(`SELECT count(*) FROM seckill.activities WHERE id = $1 AND status = 'running'`, s.activity) == 1
	})
}

// TestPermitAgreesWithItsSentence: whatever the phase, an action is permitted
// exactly if the refusal of another names it as possible.
func TestPermitAgreesWithItsSentence(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom([]phase{phaseDraft, phaseScheduled, phaseFrozen, phaseRunning, phaseEnded, phaseTerminated}).Draw(t, "phase")
		paused := rapid.Bool().Draw(t, "paused")
		for _, w := range participles {
			_, can, _ := strings.Cut(possibleSentence(p, paused), " can ")
			named := strings.Contains(can, w.word)
			if permitted := permit(p, paused, w.act) == nil; permitted != named {
				t.Fatalf("%s permitted %v, named %v: %s", w.act, permitted, named, possibleSentence(p, paused))
			}
		}
		if p == phaseEnded || p == phaseTerminated {
			if len(possible(p, paused)) != 0 {
				t.Fatalf("something is possible at the end: %v", possible(p, paused))
			}
		}
	})
}
