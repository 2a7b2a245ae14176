package order

import (
	"context"
	"errors"
	"net/http"

	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
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
}

// RefundView is an operator's view of one of a payment's refunds.
type RefundView struct {
	RefundNo  ids.ID           `json:"refund_no"`
	Amount    orderevent.Money `json:"amount"`
	Reason    string           `json:"reason" enum:"late,duplicate,mismatch,shopper,operator,dispute" doc:"Who asked for it, or why an automatic one had to be made"`
	Status    string           `json:"status" enum:"awaiting_approval,rejected,requested,succeeded,failed,settled_by_hand,replaced" doc:"awaiting_approval: a second operator has to decide; requested: asked of the provider, not done yet; failed: the provider will not do it; settled_by_hand: paid back in another way; replaced: retried as another refund"`
	CreatedAt string           `json:"created_at" format:"date-time"`
	UpdatedAt string           `json:"updated_at" format:"date-time"`
}

// adminOrder is an operator's view of an order: the shopper's document plus
// what only concerns the shop.
type adminOrder struct {
	orderevent.OrderView
	// Reason is the stored reason; shoppers see a reduced one.
	Reason string `json:"reason,omitempty" doc:"Why it was refused or closed, or paid after that" enum:"duplicate,shortfall,interrupted,blocked,timeout,canceled,backup"`
	UserID string `json:"user_id"`
	Epoch  int64  `json:"epoch" doc:"The Load of the item under which the unit was granted"`
	Shard  int16  `json:"shard" doc:"The part of the item's stock that the unit is from"`
}

// adminView renders an order for an operator.
func adminView(o orderevent.Order) adminOrder {
	return adminOrder{OrderView: orderevent.View(o), Reason: o.Reason, UserID: httpx.FormatID(o.UserID), Epoch: o.Epoch, Shard: o.Shard}
}

// statusChange is one line of an order's history.
type statusChange struct {
	Version int32  `json:"version" doc:"The order's after this change"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty" doc:"Why it was refused or closed"`
	Actor   string `json:"actor" doc:"system, shopper, an operator, the payment that brought the money, or the provider that paid it back" example:"payment 0198f2c8b5d07c3e9a4f1b2c3d4e5f61"`
	At      string `json:"at" format:"date-time"`
}

func (s *Service) adminRoutes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/orders", ID: "admin-list-orders", Tag: "operator", Role: auth.Viewer,
		Summary: "Orders, newest first",
		Description: "All filters given apply together; give `to` to begin at a time of the past. A user_id, an item_id, a session_id, an activity_id, `from` " +
			"or `to` says where to look. What none of them narrows is walked back from the newest order; a search that takes longer than 5 s " +
			"ends with `unavailable` and asks for one of them.",
		Problems: map[int]string{http.StatusUnprocessableEntity: "invalid", http.StatusServiceUnavailable: "unavailable"},
	}, s.adminList)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/orders/{no}", ID: "admin-get-order", Tag: "operator", Role: auth.Viewer,
		Summary:  "An order with its payments and its history",
		Problems: map[int]string{http.StatusNotFound: "not-found", http.StatusServiceUnavailable: "unavailable"},
	}, s.adminDetail)
}

type adminOrderOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		Order adminOrder `json:"order"`
		About
		Payments []PaymentView  `json:"payments" nullable:"false" doc:"Oldest first, with their refunds"`
		History  []statusChange `json:"history" nullable:"false" doc:"Oldest first"`
	} `nameHint:"AdminOrderDetail"`
}

// adminDetail reads Postgres and not the cache: an operator who opens one order
// needs the committed state.
func (s *Service) adminDetail(ctx context.Context, in *orderInput) (*adminOrderOutput, error) {
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
	out := &adminOrderOutput{CacheControl: httpx.NoStore}
	out.Body.Order = adminView(all.order)
	out.Body.About = all.About
	if !auth.From(ctx).Role.May(auth.Operator) {
		out.Body.About = all.masked()
	}
	out.Body.Payments = append([]PaymentView{}, all.payments...) // an empty list, not null
	out.Body.History = all.history
	return out, nil
}

var errNoOrder = fault.Plain(fault.NotFound, "There is no order with this number.")

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
