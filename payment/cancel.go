package payment

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"stampede/order"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/bus"
)

func (cl *closing) routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/orders/{no}/cancel", ID: "cancel-order", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Class: httpx.Critical,
		Summary: "Cancel an unpaid order", NoKey: httpx.SetsState,
		Description: "Closes an open payment at its provider first. If the money was faster the order is paid and the answer is " +
			"`order-not-cancelable`. While the provider gives no answer it is `payment-unavailable`: the order stays as it is, " +
			"and can be paid or canceled again.",
		Refuses: append([]*fault.Error{order.ErrNotEntered, order.ErrQueued, bus.ErrUnknown}, CancelRefuses...),
	}, cl.cancel)
}

type cancelInput struct {
	No string `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
}

// cancel closes an order at its shopper's request.
func (cl *closing) cancel(ctx context.Context, in *cancelInput) (*httpx.Output[orderevent.OrderView], error) {
	no, err := ids.Parse(in.No)
	if err != nil {
		return nil, order.ErrNotFound.Because(err)
	}
	user := auth.From(ctx).UserID
	closed, err := cl.closeBy(ctx, no, canceling{
		claim: func(ctx context.Context) (order.Claimed, error) { return cl.deps.Orders.Claim(ctx, no, user) },
		end: func(ctx context.Context) (orderevent.Order, bool, error) {
			closed, err := cl.deps.Orders.CloseClaimed(ctx, []ids.ID{no}, orderevent.ReasonCanceled)
			if err != nil || len(closed) == 0 {
				return orderevent.Order{}, false, err
			}
			return closed[0], true, nil
		},
	})
	if err != nil {
		return nil, err
	}
	return httpx.Answer(orderevent.View(closed)), nil
}

// Cancel closes an order at the request of the operator in ctx, who says why. An
// order that an operator has closed before is returned as it is.
func (cl *closing) Cancel(ctx context.Context, no ids.ID, why string) (orderevent.Order, error) {
	return cl.closeBy(ctx, no, canceling{
		claim: func(ctx context.Context) (order.Claimed, error) { return cl.deps.Orders.ClaimAny(ctx, no) },
		end: func(ctx context.Context) (orderevent.Order, bool, error) {
			return cl.deps.Orders.Withdraw(ctx, no, why)
		},
	})
}

// canceling is the first and the last step of closing an order by request. claim may
// return an order that is closed already.
type canceling struct {
	claim func(context.Context) (order.Claimed, error)
	end   func(context.Context) (o orderevent.Order, closed bool, err error)
}

// errNotClosed means that our database or the provider gave no answer about a closing.
var errNotClosed = ErrUnavailable.Saying(
	fault.T("The order could not be closed right now. Try again in a moment; the order's status shows whether it is "+
		"closed.",
		"暂时无法关闭订单，请稍后重试；是否已关闭请看订单状态。"))

// closeBy closes an order by the same protocol as expiry: claim, close the payment at
// its provider, close the order. If that fails, it gives the claim back.
func (cl *closing) closeBy(ctx context.Context, no ids.ID, c canceling) (orderevent.Order, error) {
	// A client that leaves the page has still canceled: the protocol runs to its
	// end, within its own bounds. The detached context begins before the claim,
	// which may commit as the client leaves: an order that is claimed and not
	// closed can be neither paid nor canceled until the claim expires.
	ctx = context.WithoutCancel(ctx)
	closing, stop := context.WithTimeout(ctx, closeTimeout+bookTimeout)
	defer stop()
	claimed, err := c.claim(closing)
	if err != nil || claimed.Status == orderevent.StatusClosed {
		return claimed.Order, notClosed(err)
	}
	o, err := cl.closeNow(closing, claimed.Order, c)
	if err != nil {
		giving, stop := context.WithTimeout(ctx, bookTimeout)
		defer stop()
		if failed := cl.deps.Orders.GiveBack(giving, claimed); failed != nil {
			cl.deps.Log.WarnContext(ctx, "order stays claimed after a failed cancel until its claim expires", "order_no", no, "error", failed)
		}
	}
	return o, notClosed(err)
}

// closeNow makes the second and third step for an order that is claimed.
func (cl *closing) closeNow(ctx context.Context, o orderevent.Order, c canceling) (orderevent.Order, error) {
	closable, err := cl.CloseOpen(ctx, []ids.ID{o.No})
	if err != nil {
		return o, err
	}
	if len(closable) == 1 {
		if closed, ok, err := c.end(ctx); err != nil || ok {
			return closed, err
		}
	}
	// The money was faster, or the claim expired during the protocol.
	statuses, err := cl.deps.Orders.Statuses(ctx, []ids.ID{o.No})
	if err != nil {
		return o, fmt.Errorf("payment: read order %s: %w", o.No, err)
	}
	if st := statuses[o.No]; st != orderevent.StatusPending {
		return o, order.ErrNotCancelable.With("order_status", st)
	}
	return o, order.ErrClosing
}

// notClosed is honest about an order that was to be closed.
func notClosed(err error) error {
	if err = honest(err); errors.Is(err, ErrUnavailable) {
		return errNotClosed.Because(err)
	}
	return err
}
