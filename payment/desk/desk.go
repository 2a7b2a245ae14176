package desk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"time"

	"stampede/order"
	"stampede/order/orderevent"
	"stampede/payment/refund"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
)

// Deps are the package's dependencies; all are required.
type Deps struct {
	Orders  *order.Service
	Log     *slog.Logger
	Refunds *refund.Service
	// Cancel closes an unpaid order by the protocol that shoppers' cancel has, in the
	// name of the operator in ctx. An order that an operator canceled before is no error.
	Cancel func(ctx context.Context, no ids.ID, why string) (orderevent.Order, error)
}

// Service acts on orders for operators. Safe for concurrent use.
type Service struct{ deps Deps }

// New returns the service; it starts nothing.
func New(deps Deps) *Service { return &Service{deps: deps} }

// Routes registers the package's routes.
func (s *Service) Routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/orders/{no}/cancel", ID: "admin-cancel-order", Tag: "operator", Role: auth.Operator, Load: httpx.Costly,
		Summary: "Cancel an unpaid order for its shopper",
		Description: "Closes an open payment at its provider first. If the money was faster the order is paid and the answer is `order-not-cancelable`; refund it then. " +
			"Repeating the request answers with the canceled order. The shopper reads the reason `withdrawn`; the order does not count as left unpaid.",
		Problems: map[int]string{
			http.StatusNotFound: "not-found", http.StatusConflict: "order-not-cancelable, order-closing", http.StatusServiceUnavailable: "payment-unavailable",
		},
	}, s.cancelRoute)
	s.listRoute(rt)
}

type cancelInput struct {
	No   string `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"500" pattern:"\\S" doc:"Why; operators read it" example:"The shopper asked for it by phone."`
	} `nameHint:"CancelRequest"`
}

func (s *Service) cancelRoute(ctx context.Context, in *cancelInput) (*order.AdminDetail, error) {
	no, err := order.AdminNumber(in.No)
	if err == nil {
		_, err = s.deps.Cancel(ctx, no, in.Body.Reason)
	}
	if err != nil {
		return nil, err
	}
	return s.deps.Orders.Detail(ctx, no)
}

// act does one act on one order and returns the order's status after it, and the
// refund that it asked for.
func (s *Service) act(ctx context.Context, key string, in *actionList, r *actionRow) (status string, asked *refund.AdminRefund, err error) {
	no, err := order.AdminNumber(r.OrderNo)
	if err != nil {
		return "", nil, err
	}
	// What was begun ends although the client has left.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), actTimeout)
	defer stop()
	key = keyOf(key, no)
	var o orderevent.Order
	switch in.Action {
	case cancel:
		o, err = s.deps.Cancel(ctx, no, in.Reason)
	case refunding:
		var made refund.AdminRefund
		made, err = s.deps.Refunds.Request(ctx, key, order.RefundRequest{
			OrderNo: no, Amount: r.Amount, Reason: order.RefundByOperator, Note: in.Reason, By: auth.From(ctx).UserID, Units: in.Units,
		})
		if err != nil {
			return "", nil, err
		}
		statuses, err := s.deps.Orders.Statuses(ctx, []ids.ID{no})
		return statuses[no], &made, err
	case complete:
		o, err = s.deps.Orders.Complete(ctx, no, key, r.shipment(), in.Reason)
	case ship:
		o, err = s.deps.Orders.Ship(ctx, no, *r.shipment())
	case note:
		o, err = s.deps.Orders.Note(ctx, no, key, in.Reason)
	default:
		err = fault.Plain(fault.Invalid,
			fault.T(`There is no action "{action}".`, "没有“{action}”操作。", "action", in.Action)) // the schema refuses it before
	}
	return o.Status, nil, err
}

// actTimeout bounds one act: canceling waits for a provider, 25 s at most.
const actTimeout = time.Minute

// keyOf derives an order's key from that of its list, of a length that every key may
// have.
func keyOf(key string, no ids.ID) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key + "\n" + no.String()))
	return hex.EncodeToString(sum[:])
}
