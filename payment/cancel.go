package payment

import (
	"context"
	"fmt"

	"stampede/order"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
)

type cancelInput struct {
	No string `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
}

// cancel closes an order at its shopper's request, by the same protocol as
// expiry: claim, close the payment at its provider, close the order.
func (s *Service) cancel(ctx context.Context, in *cancelInput) (*httpx.Output[orderevent.OrderView], error) {
	no, err := ids.Parse(in.No)
	if err != nil {
		return nil, order.ErrNotFound.Because(err)
	}
	// A shopper who leaves the page has still canceled: the protocol runs to its
	// end, within its own bounds. The detached context begins before the claim,
	// which may commit as the shopper leaves: an order that is claimed and not
	// closed can be neither paid nor canceled until the claim expires.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout+bookTimeout)
	defer stop()
	if _, err := s.deps.Orders.Claim(ctx, no, auth.From(ctx).UserID); err != nil {
		return nil, honest(err)
	}
	closable, err := s.CloseOpen(ctx, []ids.ID{no})
	if err != nil {
		return nil, errUnavailable.Because(err)
	}
	closed, err := s.deps.Orders.CloseClaimed(ctx, closable, orderevent.ReasonCanceled)
	if err != nil {
		return nil, honest(err)
	}
	if len(closed) == 1 {
		return httpx.Answer(orderevent.View(closed[0])), nil
	}
	// The money was faster, or the claim expired during the protocol.
	statuses, err := s.deps.Orders.Statuses(ctx, []ids.ID{no})
	if err != nil {
		return nil, honest(fmt.Errorf("payment: read order %s: %w", no, err))
	}
	if st := statuses[no]; st != orderevent.StatusPending {
		return nil, order.ErrNotCancelable.With("order_status", st)
	}
	return nil, order.ErrClosing
}
