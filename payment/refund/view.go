package refund

import (
	"stampede/order/orderevent"
	"stampede/payment/internal/paymentdb"
	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
)

// RefundView is an operator's view of one of a payment's refunds.
type RefundView struct { //nolint:revive // the name of its schema in the API
	RefundNo  ids.ID           `json:"refund_no"`
	Amount    orderevent.Money `json:"amount"`
	Reason    string           `json:"reason" enum:"late,duplicate,mismatch,shopper,operator,dispute" doc:"Who asked for it, or why an automatic one had to be made"`
	Status    string           `json:"status" enum:"awaiting_approval,rejected,requested,succeeded,failed,settled_by_hand,charged_back,replaced" doc:"awaiting_approval: a second operator has to decide; requested: asked of the provider, not done yet; failed: the provider will not do it; settled_by_hand: paid back in another way; charged_back: the shopper's bank took the money, and the shop lost the chargeback; replaced: retried as another refund"`
	CreatedAt string           `json:"created_at" format:"date-time"`
	UpdatedAt string           `json:"updated_at" format:"date-time"`
}

// AdminRefund is a refund as operators read it.
type AdminRefund struct {
	RefundView
	OrderNo     ids.ID `json:"order_no"`
	PaymentNo   ids.ID `json:"payment_no"`
	UserID      string `json:"user_id" doc:"The shopper"`
	Provider    string `json:"provider" example:"sandbox"`
	Note        string `json:"note,omitempty" doc:"Why, in the words of who asked"`
	RequestedBy string `json:"requested_by,omitempty" doc:"The user who asked; missing for an automatic one"`
	DecidedBy   string `json:"decided_by,omitempty" doc:"The operator who approved or rejected it"`
	SettledBy   string `json:"settled_by,omitempty" doc:"The operator who paid it back by hand"`
	Receipt     string `json:"receipt,omitempty" doc:"The number on the receipt of a payment by hand"`
	Units       string `json:"units,omitempty" enum:"return,write_off" doc:"What becomes of the order's units if this refund completes its refunding"`
	Attempts    int32  `json:"attempts" doc:"Calls to the provider so far"`
	LastError   string `json:"last_error,omitempty"`
}

// Brief is a refund as its shopper and an operator's order page have it.
func Brief(r paymentdb.PaymentsRefund) RefundView {
	return RefundView{
		RefundNo: r.RefundNo, Amount: orderevent.Money{Amount: r.Amount, Currency: r.Currency}, Reason: r.Reason, Status: r.Status,
		CreatedAt: orderevent.Time(r.CreatedAt), UpdatedAt: orderevent.Time(r.UpdatedAt),
	}
}

func viewOf(r paymentdb.PaymentsRefund) AdminRefund {
	return AdminRefund{
		RefundView: Brief(r), OrderNo: r.OrderNo, PaymentNo: r.PaymentNo, UserID: httpx.FormatID(r.UserID), Provider: r.Provider, Note: r.Note,
		RequestedBy: user(r.RequestedBy), DecidedBy: user(r.DecidedBy), SettledBy: user(r.SettledBy), Receipt: r.Receipt,
		Units: r.Units, Attempts: r.Attempts, LastError: r.LastError,
	}
}

// audited is a refund as the audit log keeps it. That log is never erased, so it gets why an
// operator refunds, and not what a shopper wrote or read.
func audited(r paymentdb.PaymentsRefund) AdminRefund {
	if r.Reason != ByOperator {
		r.Note = ""
	}
	return viewOf(r)
}

// user is a user's id, empty for the system.
func user(id int64) string {
	if id == 0 {
		return ""
	}
	return httpx.FormatID(id)
}
