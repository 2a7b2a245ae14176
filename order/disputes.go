package order

import (
	"context"
	"fmt"
	"time"

	"stampede/order/dispute"
	"stampede/platform/base/ids"
	"stampede/platform/watch/alarm"
)

// refundDispute requests the refund that closes a dispute, unless one was requested
// since the dispute was opened by a process that died before it could close it. A
// rejected refund is none.
func (s *Service) refundDispute(ctx context.Context, r dispute.Refund) (ids.ID, error) {
	paid, err := s.peers.Payments.PaymentsOf(ctx, r.OrderNo)
	if err != nil {
		return ids.ID{}, errReading(err)
	}
	for _, p := range paid {
		for _, made := range p.Refunds {
			at, err := time.Parse(time.RFC3339, made.CreatedAt)
			if err != nil {
				return ids.ID{}, fmt.Errorf("order: time of refund %s: %w", made.RefundNo, err)
			}
			if made.Reason == RefundByDispute && made.Status != "rejected" && !at.Before(r.Since.Truncate(time.Millisecond)) {
				return made.RefundNo, nil
			}
		}
	}
	made, err := s.peers.Payments.RequestRefund(ctx, RefundRequest{
		OrderNo: r.OrderNo, Amount: r.Amount, Reason: RefundByDispute, Note: r.Note, By: r.By, Units: r.Units,
	})
	return made.RefundNo, err
}

// Probes watch for disputes that the shop leaves unanswered.
func (s *Service) Probes() []alarm.Probe { return s.disputes.Probes() }
