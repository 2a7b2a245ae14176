package refund

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/order"
	"stampede/payment/internal/paymentdb"
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

// Deps are the package's dependencies; all are required.
type Deps struct {
	DB     *pgxpool.Pool
	Orders *order.Service
	Plan   Plan
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
