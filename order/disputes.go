package order

import (
	"context"
	"slices"

	"stampede/order/dispute"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/watch/alarm"
)

// refundDispute requests the refund that closes a dispute, unless one was requested
// since the dispute was opened by a process that died before it could close it. A
// rejected refund is none, nor is the retry of one that was made before.
func (s *Service) refundDispute(ctx context.Context, r dispute.Refund) (ids.ID, error) {
	paid, err := s.peers.Payments.PaymentsOf(ctx, r.OrderNo)
	if err != nil {
		return ids.ID{}, errReading(err)
	}
	since := orderevent.Time(r.Since) // of one form and length, so that the texts compare as the times do
	for _, p := range paid {
		retries := make(map[ids.ID]bool) // of refunds that were made before the dispute was opened
		for i, made := range p.Refunds {
			switch {
			case made.Reason != RefundByDispute || made.Status == "rejected":
			case made.CreatedAt < since || retries[made.RefundNo]:
				if made.Status == "replaced" {
					retries[retryOf(made, p.Refunds[i+1:], retries)] = true
				}
			default:
				return made.RefundNo, nil
			}
		}
	}
	made, err := s.peers.Payments.RequestRefund(ctx, RefundRequest{
		OrderNo: r.OrderNo, Amount: r.Amount, Reason: RefundByDispute, Note: r.Note, By: r.By, Units: r.Units,
	})
	return made.RefundNo, err
}

// retryOf is which of the later refunds, oldest first, took the place of one: the first
// of the same amount since then that did not take another's. It is zero if there is none.
func retryOf(replaced RefundView, later []RefundView, taken map[ids.ID]bool) (no ids.ID) {
	for _, r := range later {
		if r.Reason == replaced.Reason && r.Amount == replaced.Amount && r.CreatedAt >= replaced.UpdatedAt && !taken[r.RefundNo] {
			return r.RefundNo
		}
	}
	return no
}

// Probes watch for disputes and coupons that wait for an operator.
func (s *Service) Probes() []alarm.Probe {
	return slices.Concat(s.disputes.Probes(), s.coupons.Probes())
}
