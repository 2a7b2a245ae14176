package seckill

import (
	"slices"
	"strings"
	"time"

	"stampede/platform/base/fault"
	"stampede/seckill/internal/seckilldb"
)

// Statuses of an activity, as stored in Postgres.
const (
	statusDraft      = "draft"
	statusScheduled  = "scheduled"
	statusRunning    = "running"
	statusEnded      = "ended"
	statusTerminated = "terminated"
)

// freezeBefore is how long before its first opening an activity accepts no more
// edits, only corrections: a shopper who sees the countdown at one minute can rely
// on the prices and limits shown, and a Load that an edit requests has this long to
// finish. Stock may still change: that needs no Load, because its revision carries it
// into Redis in any state.
const freezeBefore = 60 * time.Second

// phase is the state of an activity at one moment: its status, refined by the
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

// action is what an operator can do with an activity.
type action string

const (
	actEdit      action = "edit"    // including its contents: add, change, repeat or delete sessions and items, agree to oversell an item
	actCorrect   action = "correct" // the part of an edit that no shopper relies on, see amend
	actDelete    action = "delete"
	actPublish   action = "publish"
	actPause     action = "pause"
	actResume    action = "resume"
	actTerminate action = "terminate"
	actAddStock  action = "add-stock" // or take some off
	actWriteOff  action = "write-off"
	actPauseItem action = "pause-item" // including resuming it
	// actMoveBackup is possible wherever stock can be added, and after the end. It is an
	// item's and not listed among the activity's.
	actMoveBackup action = "move-backup"
	actClone      action = "clone"
)

// actAmend is actEdit, or actCorrect where it is too late for that; see
// change.amends.
const actAmend action = "edit or correct"

// allowed is the complete state machine for operators. Requesting the present
// state succeeds as well, see settled. The two transitions that time makes,
// scheduled → running → ended, are StartDue and EndDue in SQL.
var allowed = map[phase][]action{
	phaseDraft:      {actEdit, actDelete, actPublish, actClone},
	phaseScheduled:  {actEdit, actDelete, actPause, actResume, actPauseItem, actTerminate, actAddStock, actClone},
	phaseFrozen:     {actCorrect, actPause, actResume, actPauseItem, actTerminate, actAddStock, actWriteOff, actClone},
	phaseRunning:    {actCorrect, actPause, actResume, actPauseItem, actTerminate, actAddStock, actWriteOff, actClone},
	phaseEnded:      {actClone},
	phaseTerminated: {actClone},
}

// settled lists the phases in which an action has nothing left to do, so that
// repeating it succeeds: after a double click, or when an answer was lost.
// Pausing and resuming are settled only if the activity is, or is not, paused.
// Publishing an activity that is over is an error: no shopper would see it.
var settled = map[action][]phase{
	actPublish:   {phaseScheduled, phaseFrozen, phaseRunning},
	actPause:     {phaseScheduled, phaseFrozen, phaseRunning},
	actResume:    {phaseScheduled, phaseFrozen, phaseRunning},
	actTerminate: {phaseTerminated},
}

// already reports whether the activity is already in the state that the action
// leads to.
func already(p phase, paused bool, act action) bool {
	return slices.Contains(settled[act], p) && (act != actPause || paused) && (act != actResume || !paused)
}

// phaseNames are the names of the phases in sentences.
var phaseNames = map[phase]fault.Text{
	phaseDraft: {"draft", "草稿"}, phaseScheduled: {"scheduled activity", "已发布的活动"},
	phaseFrozen: {"activity within 60 s of its opening", "开抢前 60 秒内的活动"}, phaseRunning: {"running activity", "进行中的活动"},
	phaseEnded: {"ended activity", "已结束的活动"}, phaseTerminated: {"terminated activity", "已终止的活动"},
}

// participles complete "can be …", in the order in which a sentence lists them.
var participles = []struct {
	act  action
	word fault.Text
}{
	{actEdit, fault.Text{"edited", "编辑"}},
	{actCorrect, fault.Text{"corrected", "更正"}},
	{actPublish, fault.Text{"published", "发布"}},
	{actPause, fault.Text{"paused", "暂停"}},
	{actResume, fault.Text{"resumed", "恢复"}},
	{actPauseItem, fault.Text{"stopped item by item", "逐件停售"}},
	{actTerminate, fault.Text{"terminated", "终止"}},
	{actAddStock, fault.Text{"given more or fewer units", "增减库存"}},
	{actWriteOff, fault.Text{"written off unit by unit", "逐件报损"}},
	{actClone, fault.Text{"cloned", "复制"}},
	{actDelete, fault.Text{"deleted", "删除"}},
}

// Refusals of an action, by the reason for it.
var (
	errNotEditable = fault.New(fault.Conflict, "not-editable", fault.T("This can no longer be changed", "当前状态不可修改"),
		fault.T("This can no longer be changed.", "当前已不能修改。"),
		fault.T("While the sale runs, pause it, add stock or extend it; otherwise plan another session.",
			"进行中的活动可暂停、补货或延长；其他修改请新建场次。"))
	errFrozen = fault.New(fault.Conflict, "frozen",
		fault.T("Too close to the opening to change this", "临近开抢，不可修改"),
		fault.T("This is too close to the opening.", "临近开抢，不能修改。"),
		fault.T("Pause the activity if it must not open, or change it after the opening.", "如不应开抢请暂停活动，或在开抢后再修改。"))
)

// phaseOf refines the status by the database's clock. The lifecycle worker
// moves a status up to a second late; a change advances it before calling
// phaseOf, so running and ended are taken from the status as they are.
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
		panic("seckill: unknown status " + a.Status) // the table's CHECK allows no other
	}
}

// permit returns nil if the action is allowed in this phase, else the fault
// that says what is possible instead.
func permit(p phase, paused bool, act action) error {
	if act == actMoveBackup && (p == phaseEnded || p == phaseTerminated) {
		return nil
	}
	if slices.Contains(possible(p, paused), act) || act == actMoveBackup && slices.Contains(allowed[p], actAddStock) {
		return nil
	}
	refusal := fault.ErrTransition
	switch {
	case p == phaseFrozen:
		refusal = errFrozen
	case act == actEdit || act == actDelete:
		refusal = errNotEditable
	}
	return refusal.Saying(possibleSentence(p, paused)).With("possible", possible(p, paused))
}

// possible lists the actions allowed now; never nil, so that it renders as a
// list.
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

// possibleSentence phrases the same for an operator.
func possibleSentence(p phase, paused bool) fault.Text {
	can := possible(p, paused)
	var english, chinese []string
	for _, w := range participles {
		if slices.Contains(can, w.act) {
			english, chinese = append(english, w.word[0]), append(chinese, w.word[1])
		}
	}
	subject := phaseNames[p]
	if paused && p != phaseEnded && p != phaseTerminated { // a pause no longer matters once the activity is over
		subject = fault.T("paused {subject}", "已暂停：{subject}", "subject", subject)
	}
	article := "A"
	if strings.ContainsRune("aeiou", rune(subject[0][0])) {
		article = "An"
	}
	list, last := english[:len(english)-1], english[len(english)-1]
	words := strings.Join(chinese, "、")
	if len(list) == 0 {
		return fault.T("{a} {subject} can only be {words}.", "{subject}只能{words}。", "a", article, "subject", subject, "words", fault.Text{last, words})
	}
	return fault.T("{a} {subject} can be {words}, nothing else.", "{subject}只能{words}。",
		"a", article, "subject", subject, "words", fault.Text{strings.Join(list, ", ") + " or " + last, words})
}
