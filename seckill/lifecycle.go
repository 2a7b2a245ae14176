package seckill

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"stampede/platform/base/fault"
	"stampede/seckill/internal/seckilldb"
)

// Statuses of an activity, as Postgres keeps them.
const (
	statusDraft      = "draft"
	statusScheduled  = "scheduled"
	statusRunning    = "running"
	statusEnded      = "ended"
	statusTerminated = "terminated"
)

// freezeBefore is how long before its first opening an activity takes no more
// edits: whoever sees a countdown at a minute may rely on what it says, and a
// Load that an edit asks for has this long to be done. Stock may be added: that
// needs no Load, because its revision brings it into whatever Redis has.
const freezeBefore = 60 * time.Second

// phase is where an activity stands at one moment: its status, refined by the
// clock.
type phase uint8

const (
	phaseDraft phase = iota
	phaseScheduled
	phaseFrozen // scheduled, and the first opening is less than freezeBefore away
	phaseRunning
	phaseEnded
	phaseTerminated
)

// action is something an operator may want to do with an activity.
type action string

const (
	actEdit      action = "edit" // also what it contains: add, change, repeat or delete sessions and items, agree to oversell one
	actDelete    action = "delete"
	actPublish   action = "publish"
	actPause     action = "pause"
	actResume    action = "resume"
	actTerminate action = "terminate"
	actAddStock  action = "add-stock"
	actClone     action = "clone"
)

// allowed is the whole state machine as an operator meets it; asking for what
// already is, is answered besides. The two transitions that time makes,
// scheduled → running → ended, are StartDue and EndDue in SQL.
var allowed = map[phase][]action{
	phaseDraft:      {actEdit, actDelete, actPublish, actClone},
	phaseScheduled:  {actEdit, actDelete, actPause, actResume, actTerminate, actAddStock, actClone},
	phaseFrozen:     {actPause, actResume, actTerminate, actAddStock, actClone},
	phaseRunning:    {actPause, actResume, actTerminate, actAddStock, actClone},
	phaseEnded:      {actClone},
	phaseTerminated: {actClone},
}

// settled lists the phases in which an action has nothing left to do, so that
// repeating it is no mistake: a click that was sent twice, or an answer that was
// lost. Pausing and resuming are settled only if the activity is, or is not,
// paused. Publishing what is over is a mistake: nobody would see it.
var settled = map[action][]phase{
	actPublish:   {phaseScheduled, phaseFrozen, phaseRunning},
	actPause:     {phaseScheduled, phaseFrozen, phaseRunning},
	actResume:    {phaseScheduled, phaseFrozen, phaseRunning},
	actTerminate: {phaseTerminated},
}

// already reports whether the activity is as the action would make it.
func already(p phase, paused bool, act action) bool {
	return slices.Contains(settled[act], p) && (act != actPause || paused) && (act != actResume || !paused)
}

// phaseNames are what a sentence calls an activity in the phase.
var phaseNames = map[phase]string{
	phaseDraft: "draft", phaseScheduled: "scheduled activity", phaseFrozen: "activity within 60 s of its opening",
	phaseRunning: "running activity", phaseEnded: "ended activity", phaseTerminated: "terminated activity",
}

// participles complete "can be …", in the order in which a sentence lists them.
var participles = []struct {
	act  action
	word string
}{
	{actEdit, "edited"},
	{actPublish, "published"},
	{actPause, "paused"},
	{actResume, "resumed"},
	{actTerminate, "terminated"},
	{actAddStock, "given more stock"},
	{actClone, "cloned"},
	{actDelete, "deleted"},
}

// Refusals of an action: which of them says what is in the way.
var (
	errTransition  = fault.New(fault.Conflict, "forbidden-transition", fault.Titles{"Not possible in this state", "当前状态不允许此操作"}, "This is not possible now.")
	errNotEditable = fault.New(fault.Conflict, "not-editable", fault.Titles{"This can no longer be changed", "当前状态不可修改"}, "This can no longer be changed.")
	errFrozen      = fault.New(fault.Conflict, "frozen", fault.Titles{"Too close to the opening to change this", "临近开抢，不可修改"}, "This is too close to the opening.")
)

// phaseOf refines the status by the database's clock. The lifecycle worker
// moves a status up to a second late; a change brings it up to date itself
// before it looks, so running and ended are taken as they stand.
func phaseOf(a *seckilldb.SeckillActivity, firstOpening, at time.Time) phase {
	switch a.Status {
	case statusDraft:
		return phaseDraft
	case statusScheduled:
		if firstOpening.Sub(at) <= freezeBefore {
			return phaseFrozen
		}
		return phaseScheduled
	case statusRunning:
		return phaseRunning
	case statusEnded:
		return phaseEnded
	case statusTerminated:
		return phaseTerminated
	default:
		panic("seckill: unknown status " + a.Status) // the table's CHECK knows no other
	}
}

// permit returns nil when the activity may be acted on so, else the fault that
// says what is possible instead.
func permit(p phase, paused bool, act action) error {
	if slices.Contains(possible(p, paused), act) {
		return nil
	}
	refusal := errTransition
	switch {
	case p == phaseFrozen:
		refusal = errFrozen
	case act == actEdit || act == actDelete:
		refusal = errNotEditable
	}
	return refusal.Saying(possibleSentence(p, paused)).With("possible", possible(p, paused))
}

// possible lists what may be done now; never nil, so that it renders as a list.
func possible(p phase, paused bool) []action {
	list := make([]action, 0, len(allowed[p]))
	for _, act := range allowed[p] {
		if paused && act == actPause || !paused && act == actResume {
			continue
		}
		list = append(list, act)
	}
	return list
}

// possibleSentence says the same to a person.
func possibleSentence(p phase, paused bool) string {
	can := possible(p, paused)
	var words []string
	for _, w := range participles {
		if slices.Contains(can, w.act) {
			words = append(words, w.word)
		}
	}
	subject := phaseNames[p]
	if paused && p != phaseEnded && p != phaseTerminated {
		subject = "paused " + subject // in the end it makes no difference any more
	}
	if strings.ContainsRune("aeiou", rune(subject[0])) {
		subject = "An " + subject
	} else {
		subject = "A " + subject
	}
	n := len(words)
	if n == 1 {
		return fmt.Sprintf("%s can only be %s.", subject, words[0])
	}
	return fmt.Sprintf("%s can be %s or %s, nothing else.", subject, strings.Join(words[:n-1], ", "), words[n-1])
}
