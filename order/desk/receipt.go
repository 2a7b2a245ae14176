package desk

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5"

	"stampede/order"
	"stampede/order/internal/orderdb"
	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
)

// completedByShopper is the reason in the history of an order whose shopper has the goods.
const completedByShopper = "received"

var errNotSent = fault.New(fault.Conflict, "order-not-sent",
	fault.T("This order was not sent yet", "订单尚未发货"),
	fault.T("Only an order that the shop has sent can be confirmed as received.", "商家发货后才能确认收货。"),
	fault.T("Read the order: confirm it once it is sent and the goods are with you.", "请查看订单，发货并收到商品后再确认。"))

func (s *Service) receiptRoute(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/orders/{no}/receipt", ID: "confirm-receipt", Tag: "shopper", Role: auth.Shopper, Load: httpx.Costly,
		Summary:     "Confirm that the goods of an order have arrived",
		Description: "Completes an order that was sent. Repeating it changes nothing. Without it, the order is completed some days after it was sent.",
		NoKey:       httpx.SetsState, Refuses: []*fault.Error{fault.ErrNotFound, errNotSent},
	}, s.confirmReceipt)
}

// confirmReceipt completes an order of the shopper in ctx that was sent.
func (s *Service) confirmReceipt(ctx context.Context, in *orderInput) (*httpx.Output[wholeOrder], error) {
	no, err := order.Number(in.No, order.ErrNotFound)
	if err != nil {
		return nil, err
	}
	user, changed := auth.From(ctx).UserID, false
	if no.Bucket() != ids.Bucket(user) {
		return nil, order.ErrNotFound
	}
	var o orderevent.Order
	err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		changed = false // InTx may run this again
		row, err := table.Lock(ctx, tx, no, order.ErrNotFound)
		if err != nil {
			return err
		}
		switch o = row.Order(); {
		case o.UserID != user:
			return order.ErrNotFound
		case o.Status == orderevent.StatusCompleted:
			return nil
		case o.Status != orderevent.StatusPaid || o.Handover != orderevent.HandoverShipped:
			return errNotSent.With("order_status", o.Status)
		}
		done, err := orderdb.New(tx).CompleteOrder(ctx, orderdb.CompleteOrderParams{OrderNo: no, Bucket: no.Bucket(), Reason: completedByShopper, Actor: order.ShopperIn(ctx)})
		if o, err = table.Announce(ctx, tx, orderevent.SubjectCompleted, done, err); err != nil {
			return fmt.Errorf("order: confirm the receipt of %s: %w", no, err)
		}
		changed = true
		return nil
	})
	if err != nil {
		if _, refused := errors.AsType[*fault.Error](err); !refused {
			err = order.ErrReading.Because(err)
		}
		return nil, err
	}
	if changed {
		s.deps.Orders.Committed(ctx, o)
	}
	return s.readDocument(ctx, no, user)
}

// refundUntil is until when the shopper may refund an order, "" if not, or not any more.
func (s *Service) refundUntil(ctx context.Context, all *record) (string, error) {
	if all.order.Status != orderevent.StatusPaid || all.Shipment != nil {
		return "", nil
	}
	until, err := s.deps.Refunds.Until(ctx, all.order)
	if err != nil || until.IsZero() {
		return "", err
	}
	return orderevent.Time(until), nil
}
