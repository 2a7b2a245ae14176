package order

import (
	"context"
	"errors"
	"net/http"

	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
	"stampede/order/search"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
)

// PaymentView is an operator's view of one of an order's payments.
type PaymentView struct {
	PaymentNo   ids.ID           `json:"payment_no"`
	Provider    string           `json:"provider" example:"sandbox"`
	Method      string           `json:"method,omitempty" doc:"The provider's way to pay" example:"page"`
	Status      string           `json:"status" enum:"created,captured,closed" doc:"created: open at the provider; captured: paid; closed: it cannot be paid any more"`
	Amount      orderevent.Money `json:"amount"`
	ProviderTxn string           `json:"provider_txn,omitempty" doc:"The provider's own number, once captured"`
	CreatedAt   string           `json:"created_at" format:"date-time"`
	UpdatedAt   string           `json:"updated_at" format:"date-time"`
	Refunds     []RefundView     `json:"refunds,omitempty" nullable:"false" doc:"Left out where there is none"`
	Chargebacks []ChargebackView `json:"chargebacks,omitempty" nullable:"false" doc:"Left out where there is none"`
}

// ChargebackView is a chargeback of one of an order's payments.
type ChargebackView struct {
	ChargebackNo string           `json:"chargeback_no" doc:"The provider's number"`
	Amount       orderevent.Money `json:"amount"`
	Reason       string           `json:"reason" doc:"In the provider's word" example:"fraudulent"`
	Status       string           `json:"status" enum:"inquiry,open,won,lost,closed" doc:"inquiry: the bank asks, and takes no money yet; open: the shop can still answer in the provider's console; closed: it ended before money moved"`
	Withdrawn    bool             `json:"withdrawn" doc:"The provider has taken the money from the shop, and not given it back"`
	RespondBy    string           `json:"respond_by,omitempty" format:"date-time" doc:"When the shop's answer is due"`
	CreatedAt    string           `json:"created_at" format:"date-time"`
	UpdatedAt    string           `json:"updated_at" format:"date-time"`
}

// RefundView is an operator's view of one of a payment's refunds.
type RefundView struct {
	RefundNo  ids.ID           `json:"refund_no"`
	Amount    orderevent.Money `json:"amount"`
	Reason    string           `json:"reason" enum:"late,duplicate,mismatch,shopper,operator,dispute" doc:"Who asked for it, or why an automatic one had to be made"`
	Status    string           `json:"status" enum:"awaiting_approval,rejected,requested,succeeded,failed,settled_by_hand,charged_back,replaced" doc:"awaiting_approval: a second operator has to decide; requested: asked of the provider, not done yet; failed: the provider will not do it; settled_by_hand: paid back in another way; charged_back: the shopper's bank took the money, and the shop lost the chargeback; replaced: retried as another refund"`
	CreatedAt string           `json:"created_at" format:"date-time"`
	UpdatedAt string           `json:"updated_at" format:"date-time"`
}

// statusChange is one line of an order's history.
type statusChange struct {
	Version int32  `json:"version" doc:"The order's after this change"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty" doc:"Why it was refused or closed"`
	Action  string `json:"action,omitempty" enum:"cancel,refund,complete,ship,note" doc:"What an operator did; the status may have stayed as it was"`
	Note    string `json:"note,omitempty" doc:"The operator's words: why, or the note. Only operators read them"`
	Actor   string `json:"actor" doc:"system, shopper, minted token (of stampede token, for the shopper), an operator, the payment that brought the money, or the provider that paid it back" example:"payment 0198f2c8b5d07c3e9a4f1b2c3d4e5f61"`
	At      string `json:"at" format:"date-time"`
}

func (s *Service) adminRoutes(rt *httpx.Router) {
	search.New(search.Deps{
		DB: s.deps.DB, Accounts: s.deps.Accounts, Payments: s.peers.Payments, Plan: s.deps.Plan, Log: s.deps.Log, Enter: s.enterReading,
	}).Routes(rt)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/orders/{no}", ID: "admin-get-order", Tag: "operator", Role: auth.Viewer,
		Summary:  "An order with its payments and its history",
		Problems: map[int]string{http.StatusNotFound: "not-found", http.StatusServiceUnavailable: "unavailable"},
	}, s.adminDetail)
}

// AdminDetail is the answer with an order as an operator reads it.
type AdminDetail struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		Order search.AdminOrder `json:"order"`
		About
		Payments []PaymentView  `json:"payments" nullable:"false" doc:"Oldest first, with their refunds"`
		History  []statusChange `json:"history" nullable:"false" doc:"Oldest first"`
	} `nameHint:"AdminOrderDetail"`
}

// Detail returns an order as an operator reads it. It reads Postgres and not the cache:
// an operator who opens one order needs the committed state.
func (s *Service) Detail(ctx context.Context, no ids.ID) (*AdminDetail, error) {
	return s.adminDetail(ctx, &orderInput{No: no.String()})
}

func (s *Service) adminDetail(ctx context.Context, in *orderInput) (*AdminDetail, error) {
	no, err := in.number()
	if err != nil {
		return nil, errNoOrder.Because(err)
	}
	all, err := s.readAll(ctx, no)
	if errors.Is(err, ErrNotFound) {
		return nil, errNoOrder // not written; whether it waits in line is for the shopper's route to say
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
	out.Body.Payments = append([]PaymentView{}, all.payments...) // an empty list, not null
	out.Body.History = withActs(all.history, all.acts)
	return out, nil
}

var errNoOrder = fault.Plain(fault.NotFound, fault.T("There is no order with this number.", "没有该订单号的订单。"))

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
