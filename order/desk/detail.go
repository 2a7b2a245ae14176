package desk

import (
	"context"
	"errors"
	"slices"

	"stampede/order"
	"stampede/order/actions"
	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
	"stampede/order/search"
	"stampede/payment/view"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
)

// statusChange is one line of an order's history.
type statusChange struct {
	Version int32  `json:"version" doc:"The order's after this change"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty" doc:"Why it was refused or closed" example:"timeout"`
	Action  string `json:"action,omitempty" enum:"cancel,refund,complete,ship,note" doc:"What an operator did; the status may have stayed as it was"`
	Note    string `json:"note,omitempty" doc:"The operator's words: why, or the note. Only operators read them"`
	Actor   string `json:"actor" doc:"system, shopper, minted token (of stampede token, for the shopper), an operator, the payment that brought the money, or the provider that paid it back" example:"payment 0198f2c8b5d07c3e9a4f1b2c3d4e5f61"`
	At      string `json:"at" format:"date-time"`
}

// AdminDetail is the answer with an order as an operator reads it.
type AdminDetail struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		Order search.AdminOrder `json:"order"`
		About
		Reference
		Payments []view.PaymentView `json:"payments" nullable:"false" doc:"Oldest first, with their refunds"`
		History  []statusChange     `json:"history" nullable:"false" doc:"Oldest first"`
	} `nameHint:"AdminOrderDetail"`
}

func (s *Service) detailRoute(ctx context.Context, in *orderInput) (*AdminDetail, error) {
	no, err := order.Number(in.No, order.ErrNoOrder)
	if err != nil {
		return nil, err
	}
	return s.detail(ctx, no)
}

// detail returns an order as an operator reads it. It reads Postgres and not the cache:
// an operator who opens one order needs the committed state.
func (s *Service) detail(ctx context.Context, no ids.ID) (*AdminDetail, error) {
	all, err := s.readRecord(ctx, no)
	if errors.Is(err, order.ErrNotFound) {
		return nil, order.ErrNoOrder // not written; whether it waits in line is for the shopper's route to say
	}
	if err != nil {
		return nil, err
	}
	out := &AdminDetail{CacheControl: httpx.NoStore}
	out.Body.Order = search.View(all.order)
	out.Body.About = all.About
	if !auth.From(ctx).Role.May(auth.Operator) {
		out.Body.About = all.masked()
	}
	if out.Body.Reference, err = referenceOf(ctx, s.deps.DB, no); err != nil {
		return nil, order.ErrReading.Because(err)
	}
	out.Body.Payments = append([]view.PaymentView{}, all.payments...) // an empty list, not null
	out.Body.History = withActions(all.history, all.actions)
	return out, nil
}

// history puts the first state, which is the order row itself, before the later
// changes.
func history(o orderevent.Order, changes []orderdb.HistoryOfOrderRow) []statusChange {
	first := statusChange{Version: 1, Status: orderevent.StatusPending, Actor: "system", At: orderevent.Time(o.CreatedAt)}
	if o.Status == orderevent.StatusRefused {
		first.Status, first.Reason = o.Status, o.Reason
	}
	lines := []statusChange{first}
	for _, c := range changes {
		lines = append(lines, statusChange{Version: c.Version, Status: c.Status, Reason: c.Reason, Actor: c.Actor, At: orderevent.Time(c.At)})
	}
	return lines
}

// withActions adds operators' actions to an order's history: the words to the change that the
// action made, and a line of its own for an action that changed nothing else.
func withActions(lines []statusChange, list []actions.Action) []statusChange {
	for _, a := range list {
		actor := "operator " + httpx.FormatID(a.Operator)
		at := len(lines)
		for at > 0 && lines[at-1].Version > a.Version {
			at--
		}
		if at > 0 {
			last, moved := &lines[at-1], a.Action != actions.Note && a.Action != actions.Refund
			if moved && last.Version == a.Version && last.Actor == actor && last.Action == "" {
				last.Action, last.Note = a.Action, a.Text
				continue
			}
		}
		line := statusChange{Version: a.Version, Action: a.Action, Note: a.Text, Actor: actor, At: orderevent.Time(a.At)}
		if at > 0 {
			line.Status = lines[at-1].Status
		}
		lines = slices.Insert(lines, at, line)
	}
	return lines
}
