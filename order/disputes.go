package order

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"stampede/order/dispute"
	"stampede/platform/base/ids"
	"stampede/platform/watch/alarm"
)

// refundDispute requests the refund that closes a dispute, in the transaction that does.
func (s *Service) refundDispute(ctx context.Context, r dispute.Refund, also func(context.Context, pgx.Tx, ids.ID) error) error {
	_, err := s.peers.Payments.RequestRefund(ctx, RefundRequest{
		OrderNo: r.OrderNo, Amount: r.Amount, Reason: RefundByDispute, Note: r.Note, By: r.By, Units: r.Units, Also: also,
	})
	return err
}

// Probes watch for disputes and coupons that wait for an operator.
func (s *Service) Probes() []alarm.Probe {
	return slices.Concat(s.disputes.Probes(), s.coupons.Probes())
}
