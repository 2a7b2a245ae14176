package payment

import (
	"context"

	"stampede/payment/internal/paymentdb"
	"stampede/platform/base/ids"
)

// Stages of an item's funnel that this module counts.
const (
	stagePayments = "payments" // started, and captures by outcome
	stageRefunds  = "refunds"  // refunds that ended: succeeded, failed
)

// tallyRefund counts how a refund ended in its item's funnel. Its order names the
// item; a refund whose order cannot be read is not counted.
func (s *Service) tallyRefund(ctx context.Context, no ids.ID, end string) {
	if s.deps.Tally == nil {
		return
	}
	r, err := s.q.Refund(ctx, paymentdb.RefundParams{RefundNo: no, Bucket: no.Bucket()})
	if err == nil {
		o, _, getErr := s.deps.Orders.Get(ctx, r.OrderNo)
		s.deps.Tally.Count(o.ItemID, stageRefunds, end, 1)
		err = getErr
	}
	if err != nil {
		s.deps.Log.WarnContext(ctx, "refund not counted in the funnel", "refund_no", no, "error", err)
	}
}
