package desk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/order"
	"stampede/order/actions"
	"stampede/order/dispute"
	"stampede/order/orderevent"
	"stampede/order/search"
	"stampede/payment/refund"
	"stampede/payment/view"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm"
)

// Deps are the package's dependencies; all but Accounts and Zone are required.
type Deps struct {
	DB       *pgxpool.Pool // order's
	Standby  *pg.Standby   // for the list and the export
	Orders   *order.Service
	Payments *view.Reader
	Refunds  *refund.Service
	// Cancel closes an unpaid order by the protocol that shoppers' cancel has, in the
	// name of the operator in ctx. An order that an operator canceled before is no error.
	Cancel        func(ctx context.Context, no ids.ID, why string) (orderevent.Order, error)
	CancelRefuses []*fault.Error
	Plan          search.Plan
	Accounts      search.Phones // knows the shoppers' phones; nil knows none
	Outbox        order.Waker
	Zone          *time.Location // the shop's; nil is UTC
	Log           *slog.Logger
}

// Service shows orders and acts on them. Safe for concurrent use.
type Service struct {
	deps     Deps
	disputes *dispute.Service
	search   *search.Service
}

// New returns the service; it starts nothing.
func New(deps Deps) *Service {
	s := &Service{deps: deps}
	refuses := []*fault.Error{refund.ErrNotRefundable, refund.ErrTooMuch, refund.ErrNothing}
	s.disputes = dispute.New(dispute.Deps{DB: deps.DB, Refund: s.refundDispute, Refuses: refuses, Wake: deps.Outbox.Wake})
	s.search = search.New(search.Deps{
		DB: deps.DB, Standby: deps.Standby, Accounts: deps.Accounts, Payments: deps.Payments, Plan: deps.Plan, Log: deps.Log, Zone: deps.Zone,
		Enter: deps.Orders.EnterReading,
	})
	return s
}

// Probes watch for disputes that wait for an operator.
func (s *Service) Probes() []alarm.Probe { return s.disputes.Probes() }

// refundDispute requests the refund that closes a dispute, in the transaction that does.
func (s *Service) refundDispute(ctx context.Context, r dispute.Refund, also func(context.Context, pgx.Tx, ids.ID) error) error {
	_, err := s.deps.Refunds.Request(ctx, "", refund.Request{
		OrderNo: r.OrderNo, Amount: r.Amount, Reason: refund.ByDispute, Note: r.Note, By: r.By, Units: r.Units, Also: also,
	})
	return err
}

// Routes registers the package's routes.
func (s *Service) Routes(rt *httpx.Router) {
	s.documentRoutes(rt)
	s.detailsRoutes(rt)
	s.pickupRoutes(rt)
	s.completionRoutes(rt)
	s.actionRoutes(rt)
	shipper{s}.routes(rt)
	s.receiptRoute(rt)
	s.referenceRoutes(rt)
	s.search.Routes(rt)
	s.disputes.Routes(rt)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/orders/{no}", ID: "admin-get-order", Tag: "operator", Role: auth.Viewer, Scope: auth.OrdersRead,
		Summary: "An order with its payments and its history",
	}, s.detailRoute)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/orders/{no}/cancel", ID: "admin-cancel-order", Tag: "operator", Role: auth.Operator, Scope: auth.OrdersWrite, Load: httpx.Costly,
		Summary: "Cancel an unpaid order for its shopper", Audit: "order.cancel", NoKey: httpx.SetsState,
		Description: "Closes an open payment at its provider first. If the money was faster the order is paid and the answer is `order-not-cancelable`; refund it then. " +
			"Repeating the request answers with the canceled order. The shopper reads the reason `withdrawn`; the order does not count as left unpaid.",
		Refuses: s.deps.CancelRefuses,
	}, s.cancelRoute)
	s.listRoute(rt)
}

// orderInput names an order by its path.
type orderInput struct {
	No string `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
}

type cancelInput struct {
	No   string `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"500" pattern:"\\S" doc:"Why; operators read it" example:"The shopper asked for it by phone."`
	} `nameHint:"CancelRequest"`
}

func (s *Service) cancelRoute(ctx context.Context, in *cancelInput) (*AdminDetail, error) {
	return s.after(ctx, in.No, func(no ids.ID) (orderevent.Order, error) { return s.deps.Cancel(ctx, no, in.Body.Reason) })
}

// after answers an operator's action with the order as it is then.
func (s *Service) after(ctx context.Context, number string, do func(no ids.ID) (orderevent.Order, error)) (*AdminDetail, error) {
	no, err := order.Number(number, order.ErrNoOrder)
	if err == nil {
		_, err = do(no)
	}
	if err != nil {
		return nil, err
	}
	return s.detail(ctx, no)
}

// do does one action on one order and returns the order's status after it, and the
// refund that it asked for.
func (s *Service) do(ctx context.Context, key string, in *actionList, r *actionRow) (status string, asked *refund.AdminRefund, err error) {
	no, err := order.Number(r.OrderNo, order.ErrNoOrder)
	if err != nil {
		return "", nil, err
	}
	// What was begun ends although the client has left.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), actionTimeout)
	defer stop()
	key = keyOf(key, no)
	var o orderevent.Order
	switch in.Action {
	case actions.Cancel:
		o, err = s.deps.Cancel(ctx, no, in.Reason)
	case actions.Refund:
		var made refund.AdminRefund
		made, err = s.deps.Refunds.Request(ctx, key, refund.Request{
			OrderNo: no, Amount: r.Amount, Reason: refund.ByOperator, Note: in.Reason, By: auth.From(ctx).UserID, Units: in.Units,
		})
		if err != nil {
			return "", nil, err
		}
		statuses, err := s.deps.Orders.Statuses(ctx, []ids.ID{no})
		if err != nil { // the refund is committed, and its line says so
			s.deps.Log.WarnContext(ctx, "order's status not read after its refund", "order_no", no, "error", err)
		}
		return statuses[no], &made, nil
	case actions.Complete:
		o, err = s.complete(ctx, no, key, completion{how: completedByShipper, sent: r.shipment(), note: in.Reason})
	case actions.Ship:
		o, err = s.ship(ctx, no, *r.shipment(), func(tx pgx.Tx, _ *Parcel) error { return s.noRefundOpen(ctx, tx, no) })
	case actions.Note:
		o, err = s.note(ctx, no, key, in.Note)
	default:
		err = fault.Plain(fault.Invalid,
			fault.T(`There is no action "{action}".`, "没有“{action}”操作。", "action", in.Action)) // the schema refuses it before
	}
	return o.Status, nil, err
}

// actionTimeout bounds one action: canceling waits for a provider, 25 s at most.
const actionTimeout = time.Minute

// keyOf derives an order's key from that of its list, of a length that every key may
// have.
func keyOf(key string, no ids.ID) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key + "\n" + no.String()))
	return hex.EncodeToString(sum[:])
}
