package refund

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/order"
	"stampede/order/orderevent"
	"stampede/payment/internal/paymentdb"
	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
)

// Settings are an operator's settings about refunds.
type Settings struct {
	RefundApprovalAbove int64 `name:"refund-approval-above" env:"STAMPEDE_REFUND_APPROVAL_ABOVE" default:"0" min:"0" help:"Refunds that operators ask for need a second operator's approval once they add up to more than this for an order, in minor units of its currency (10000 is CNY 100.00); 0 never." rare:""`
}

// Plan is what seckill's plan says about refunds.
type Plan interface {
	// RefundRule returns for how long after paying a shopper of the activity may refund an
	// order that is not completed, 0 for never, and whether the units are written off
	// unless an operator decides otherwise.
	RefundRule(ctx context.Context, activity int64) (within time.Duration, writeOff bool, err error)
}

// Deps are the package's dependencies; all but Standby and MakerOf are required.
type Deps struct {
	DB      *pgxpool.Pool
	Standby *pg.Standby // reads the list
	Orders  *order.Service
	Plan    Plan
	// MakerOf returns who made the API key that acts as a user; 0 for a person. Nil: there are no keys.
	MakerOf func(ctx context.Context, user int64) (int64, error)
	// Requested is called after the commit of a refund that is to be requested from its
	// provider now; it must not block.
	Requested func(r AdminRefund)
}

// Service refunds orders. Safe for concurrent use.
type Service struct {
	set  Settings
	deps Deps
	q    *paymentdb.Queries
}

// New returns the service; it starts nothing.
func New(set Settings, deps Deps) *Service {
	return &Service{set: set, deps: deps, q: paymentdb.New(deps.DB)}
}

// Statuses of a refund.
const (
	awaiting  = "awaiting_approval"
	rejected  = "rejected"
	requested = "requested"
	succeeded = "succeeded"
	failed    = "failed"
	byHand    = "settled_by_hand"
	replaced  = "replaced"
)

// Names in the ledger.
const (
	kindRefund   = "refund"
	kindReversal = "refund_reversal" // of the refund with the same transaction
	// ByHand stands in a provider's place for the shop's own ways to pay back, which
	// have no statement; no provider may have this name.
	ByHand = "by-hand"
)

// ErrMeanwhile asks for a report again, or for it to be asked for: another changed the
// refund at the same moment, and only the provider knows which is the later.
var ErrMeanwhile = errors.New("refund: it changed while the report was read")

// bookTimeout bounds a change of the books: far more than its transaction needs.
const bookTimeout = 5 * time.Second

// detached is ctx for a change that shall end although its client has left.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), bookTimeout)
}

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
	RequestedBy string `json:"requested_by,omitempty" doc:"The user who asked; missing for an automatic one" example:"7"`
	DecidedBy   string `json:"decided_by,omitempty" doc:"The operator who approved or rejected it" example:"8"`
	SettledBy   string `json:"settled_by,omitempty" doc:"The operator who paid it back by hand" example:"8"`
	Receipt     string `json:"receipt,omitempty" doc:"The number on the receipt of a payment by hand"`
	Units       string `json:"units,omitempty" enum:"return,write_off" doc:"What becomes of the order's units if this refund completes its refunding"`
	Attempts    int32  `json:"attempts" doc:"Calls to the provider so far"`
	LastError   string `json:"last_error,omitempty" example:"The provider did not answer within 10 s."`
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
