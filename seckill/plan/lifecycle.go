package plan

import (
	"slices"
	"strings"
	"time"

	"stampede/inventory"
	"stampede/platform/base/fault"
	"stampede/platform/identity/humancheck"
	"stampede/seckill/internal/seckilldb"
)

// Statuses of an activity, as stored in Postgres.
const (
	StatusDraft      = "draft"
	StatusScheduled  = "scheduled"
	StatusRunning    = "running"
	StatusEnded      = "ended"
	StatusTerminated = "terminated"
)

// FreezeBefore is how long before its first opening an activity accepts no more
// edits, only corrections: a shopper who sees the countdown at one minute can rely
// on the prices and limits shown, and a Load that an edit requests has this long to
// finish. Stock may still change: that needs no Load, because its revision carries it
// into Redis in any state.
const FreezeBefore = 60 * time.Second

// Phase is the state of an activity at one moment: its status, refined by the
// clock.
type Phase uint8

// The phases.
const (
	PhaseDraft Phase = iota
	PhaseScheduled
	PhaseFrozen // scheduled, and the first opening is less than FreezeBefore away
	PhaseRunning
	PhaseEnded
	PhaseTerminated
)

// Action is what an operator can do with an activity.
type Action string

// The actions.
const (
	ActEdit      Action = "edit"    // including its contents: add, change, repeat or delete sessions and items, agree to oversell an item
	ActCorrect   Action = "correct" // the part of an edit that no shopper relies on, see change/correct.go
	ActDelete    Action = "delete"
	ActPublish   Action = "publish"
	ActPause     Action = "pause"
	ActResume    Action = "resume"
	ActTerminate Action = "terminate"
	ActAddStock  Action = "add-stock" // or take some off
	ActWriteOff  Action = "write-off"
	ActPauseItem Action = "pause-item" // including resuming it
	// ActMoveBackup is possible wherever stock can be added, and after the end. It is an
	// item's and not listed among the activity's.
	ActMoveBackup Action = "move-backup"
	ActClone      Action = "clone"
)

// ActEditOrCorrect is ActEdit, or ActCorrect where it is too late for that; see
// change.onlyCorrections.
const ActEditOrCorrect Action = "edit or correct"

// allowed is the complete state machine for operators. Requesting the present
// state succeeds as well, see settled. The two transitions that time makes,
// scheduled → running → ended, are StartDue and EndDue in SQL.
var allowed = map[Phase][]Action{
	PhaseDraft:      {ActEdit, ActDelete, ActPublish, ActClone},
	PhaseScheduled:  {ActEdit, ActDelete, ActPause, ActResume, ActPauseItem, ActTerminate, ActAddStock, ActClone},
	PhaseFrozen:     {ActCorrect, ActPause, ActResume, ActPauseItem, ActTerminate, ActAddStock, ActWriteOff, ActClone},
	PhaseRunning:    {ActCorrect, ActPause, ActResume, ActPauseItem, ActTerminate, ActAddStock, ActWriteOff, ActClone},
	PhaseEnded:      {ActClone},
	PhaseTerminated: {ActClone},
}

// settled lists the phases in which an action has nothing left to do, so that
// repeating it succeeds: after a double click, or when an answer was lost.
// Pausing and resuming are settled only if the activity is, or is not, paused.
// Publishing an activity that is over is an error: no shopper would see it.
var settled = map[Action][]Phase{
	ActPublish:   {PhaseScheduled, PhaseFrozen, PhaseRunning},
	ActPause:     {PhaseScheduled, PhaseFrozen, PhaseRunning},
	ActResume:    {PhaseScheduled, PhaseFrozen, PhaseRunning},
	ActTerminate: {PhaseTerminated},
}

// Already reports whether the activity is already in the state that the action
// leads to.
func Already(p Phase, paused bool, act Action) bool {
	return slices.Contains(settled[act], p) && (act != ActPause || paused) && (act != ActResume || !paused)
}

// PhaseNames are the names of the phases in sentences.
var PhaseNames = map[Phase]fault.Text{
	PhaseDraft: {"draft", "草稿"}, PhaseScheduled: {"scheduled activity", "已发布的活动"},
	PhaseFrozen: {"activity within 60 s of its opening", "开抢前 60 秒内的活动"}, PhaseRunning: {"running activity", "进行中的活动"},
	PhaseEnded: {"ended activity", "已结束的活动"}, PhaseTerminated: {"terminated activity", "已终止的活动"},
}

// Participles complete "can be …", in the order in which a sentence lists them.
var Participles = []struct {
	act  Action
	word fault.Text
}{
	{ActEdit, fault.Text{"edited", "编辑"}},
	{ActCorrect, fault.Text{"corrected", "更正"}},
	{ActPublish, fault.Text{"published", "发布"}},
	{ActPause, fault.Text{"paused", "暂停"}},
	{ActResume, fault.Text{"resumed", "恢复"}},
	{ActPauseItem, fault.Text{"stopped item by item", "逐件停售"}},
	{ActTerminate, fault.Text{"terminated", "终止"}},
	{ActAddStock, fault.Text{"given more or fewer units", "增减库存"}},
	{ActWriteOff, fault.Text{"written off unit by unit", "逐件报损"}},
	{ActClone, fault.Text{"cloned", "复制"}},
	{ActDelete, fault.Text{"deleted", "删除"}},
}

// Refusals of an action, by the reason for it.
var (
	ErrNotEditable = fault.New(fault.Conflict, "not-editable", fault.T("This can no longer be changed", "当前状态不可修改"),
		fault.T("This can no longer be changed.", "当前已不能修改。"),
		fault.T("While the sale runs, pause it, add stock or extend it; otherwise plan another session.",
			"进行中的活动可暂停、补货或延长；其他修改请新建场次。"))
	ErrFrozen = fault.New(fault.Conflict, "frozen",
		fault.T("Too close to the opening to change this", "临近开抢，不可修改"),
		fault.T("This is too close to the opening.", "临近开抢，不能修改。"),
		fault.T("Pause the activity if it must not open, or change it after the opening.", "如不应开抢请暂停活动，或在开抢后再修改。"))
)

// PhaseOf refines the status by the database's clock. The lifecycle worker
// moves a status up to a second late; a change advances it before calling
// PhaseOf, so running and ended are taken from the status as they are.
func PhaseOf(a *seckilldb.SeckillActivity, firstOpening, at time.Time) Phase {
	switch a.Status {
	case StatusDraft:
		return PhaseDraft
	case StatusScheduled:
		if firstOpening.Sub(at) <= FreezeBefore {
			return PhaseFrozen
		}
		return PhaseScheduled
	case StatusRunning:
		return PhaseRunning
	case StatusEnded:
		return PhaseEnded
	case StatusTerminated:
		return PhaseTerminated
	default:
		panic("plan: unknown status " + a.Status) // the table's CHECK allows no other
	}
}

// Permit returns nil if the action is allowed in this phase, else the fault
// that says what is possible instead.
func Permit(p Phase, paused bool, act Action) error {
	if act == ActMoveBackup && (p == PhaseEnded || p == PhaseTerminated) {
		return nil
	}
	if slices.Contains(Possible(p, paused), act) || act == ActMoveBackup && slices.Contains(allowed[p], ActAddStock) {
		return nil
	}
	refusal := fault.ErrTransition
	switch {
	case p == PhaseFrozen:
		refusal = ErrFrozen
	case act == ActEdit || act == ActDelete:
		refusal = ErrNotEditable
	}
	return refusal.Saying(PossibleSentence(p, paused)).With("possible", Possible(p, paused))
}

// Possible lists the actions allowed now; never nil, so that it renders as a
// list.
func Possible(p Phase, paused bool) []Action {
	list := make([]Action, 0, len(allowed[p]))
	for _, act := range allowed[p] {
		if paused && act == ActPause || !paused && act == ActResume {
			continue
		}
		list = append(list, act)
	}
	return list
}

// PossibleSentence phrases the same for an operator.
func PossibleSentence(p Phase, paused bool) fault.Text {
	can := Possible(p, paused)
	var english, chinese []string
	for _, w := range Participles {
		if slices.Contains(can, w.act) {
			english, chinese = append(english, w.word[0]), append(chinese, w.word[1])
		}
	}
	subject := PhaseNames[p]
	if paused && p != PhaseEnded && p != PhaseTerminated { // a pause no longer matters once the activity is over
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

// Complete lists what the plan itself lacks.
func (b *Activity) Complete(cfg Config, at time.Time) Flaws {
	var f Flaws
	f.Add(len(b.Sessions) > 0, "sessions", nil,
		fault.T("An activity needs a session before it is published.", "发布前至少需要一个场次。"))
	items := 0
	for i := range b.Sessions {
		t := &b.Sessions[i]
		location := SessionSubject(t.ID)
		items += len(t.Items)
		f.Add(len(t.Items) > 0, location, nil,
			fault.T(`Session "{name}" has no item.`, "场次“{name}”没有商品。", "name", t.Name))
		f.Add(t.ClosesAt.After(at), location, t.ClosesAt,
			fault.T(`Session "{name}" is already over.`, "场次“{name}”已经结束。", "name", t.Name))
	}
	f.Add(items <= MaxItems, "sessions", items,
		fault.T("An activity has {most} items at most.", "一个活动最多 {most} 件商品。", "most", MaxItems))
	f.Add(b.HumanCheck != string(humancheck.Verifier) || cfg.Verifier, "human_check", b.HumanCheck,
		fault.T("No verifier is set up on this server: choose another human check, or start the server with "+
			"--verifier-url.",
			"服务器未配置第三方人机验证，请选择其他验证方式。"))
	return f
}

// Payable refuses prices that shoppers could not pay on this server, and
// payment windows that a provider in use cannot keep. It is checked at
// publication and at every edit after it.
func (b *Activity) Payable(cfg Config) (f Flaws) {
	for _, item := range b.Items() {
		free := item.SalePrice == 0 && b.Checkout.Freight == 0
		f.Add(b.Checkout.Freight == 0 || item.Currency == b.Checkout.Currency, inventory.ItemSubject(item.ID), item.Currency,
			fault.T(`The freight is one amount for all items of the activity, in {currency}; "{item}" has another currency.`,
				"运费对整个活动统一收取，货币为 {currency}：“{item}”的货币不同。", "currency", b.Checkout.Currency, "item", item.Title))
		f.Add(free || cfg.CanPay, inventory.ItemSubject(item.ID), item.SalePrice,
			fault.T(`No payment provider is set up on this server, so shoppers could not pay for "{item}": give it a sale `+
				`price of 0 and its activity no freight, or start the server with a provider (--sandbox-bank for testing).`,
				"服务器未配置支付渠道，顾客无法支付“{item}”：请配置支付渠道，或将价格与运费设为 0。", "item", item.Title))
	}
	for i := range b.Sessions {
		session := &b.Sessions[i].SeckillSession
		window := PayWindow(&b.SeckillActivity, session)
		f.Add(window >= cfg.ShortestPayWindow, SessionSubject(session.ID), window.String(),
			fault.T(`A payment provider in use needs {least} to take a payment; the window of session "{session}" is {window}.`,
				"支付渠道要求付款时限至少 {least}，场次“{session}”为 {window}。",
				"least", cfg.ShortestPayWindow, "session", session.Name, "window", window))
	}
	return f
}
