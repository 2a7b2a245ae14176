package desk

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"stampede/order"
	"stampede/order/actions"
	"stampede/order/details"
	"stampede/order/internal/orderdb"
	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/base/plaintext"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/idempotency"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

var errNotShippable = fault.New(fault.Conflict, "order-not-shippable",
	fault.T("This order cannot be shipped", "订单当前不可发货"),
	fault.T("Only an order that is paid or completed can be shipped.", "只有已付款或已完成的订单可以发货。"),
	fault.T("Read the order: ship it once it is paid. A refunded or closed order is not shipped.",
		"请查看订单：付款后方可发货，已退款或已关闭的订单无需发货。"))

// Parcel is how an order was sent.
type Parcel struct {
	Carrier    string `json:"carrier" minLength:"1" maxLength:"60" example:"SF Express"`
	TrackingNo string `json:"tracking_no" minLength:"1" maxLength:"64" example:"SF1234567890"`
}

var errNoText = fault.Plain(fault.Invalid,
	fault.T("The carrier and the tracking number have one line each, with a letter or a digit.", "请各用一行填写快递公司和单号。"))

// check trims a parcel's texts and refuses those that its shopper would not read as one
// line.
func (p *Parcel) check() error {
	for _, text := range []*string{&p.Carrier, &p.TrackingNo} {
		if *text = plaintext.Clean(*text); !plaintext.Legible(*text, false) {
			return errNoText
		}
	}
	return nil
}

func (s *Service) actionRoutes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPut, Path: "/api/v1/admin/orders/{no}/shipment", ID: "ship-order", Tag: "operator", Role: auth.Operator, Scope: auth.OrdersWrite,
		Summary: "Note how a paid order was sent, or correct it", Audit: "order.ship",
		Description: "The shopper reads the carrier and the tracking number, and can no longer return the order without the shop. The order is completed later, by its own route or by time. Unlike lists, this route ships an order of which a refund is open, and changes a number that was noted before.",
		Refuses:     []*fault.Error{errNotShippable},
	}, s.shipRoute)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/orders/{no}/notes", ID: "note-on-order", Tag: "operator", Role: auth.Operator, Scope: auth.OrdersWrite,
		Summary: "Add a note to an order's history, which only operators read", Audit: "order.note",
	}, s.noteRoute)
}

type shipInput struct {
	No   string `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	Body Parcel
}

func (s *Service) shipRoute(ctx context.Context, in *shipInput) (*AdminDetail, error) {
	return s.after(ctx, in.No, func(no ids.ID) (orderevent.Order, error) { return s.ship(ctx, no, in.Body, nil) })
}

type noteInput struct {
	No string `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	idempotency.Header
	Body struct {
		Note string `json:"note" minLength:"1" maxLength:"500" pattern:"\\S" example:"The shopper asked for delivery after Friday."`
	} `nameHint:"OrderNote"`
}

func (s *Service) noteRoute(ctx context.Context, in *noteInput) (*AdminDetail, error) {
	return s.after(ctx, in.No, func(no ids.ID) (orderevent.Order, error) { return s.note(ctx, no, in.Key, in.Body.Note) })
}

// state is what the audit log has of an order before and after a change.
type state struct {
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
	*Parcel
}

// ship notes how a paid order was sent, or corrects it, unless may, if given, refuses it. May
// sees what was noted before, nil if nothing was, of an order whose row tx has locked.
// Repeating it changes nothing. It fails with not-found, order-not-shippable, or invalid for
// an order that is to be picked up.
func (s *Service) ship(ctx context.Context, no ids.ID, sent Parcel, may func(tx pgx.Tx, before *Parcel) error) (o orderevent.Order, err error) {
	if err := sent.check(); err != nil {
		return o, err
	}
	changed := false
	err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) (err error) {
		changed = false // InTx may run this again
		if o, err = lockAny(ctx, tx, no); err != nil {
			return err
		}
		if o.Status != orderevent.StatusPaid && o.Status != orderevent.StatusCompleted {
			return errNotShippable.With("order_status", o.Status)
		}
		before, err := putShipment(ctx, tx, no, sent)
		if err == nil && may != nil {
			err = may(tx, before)
		}
		if err != nil || before != nil && *before == sent {
			return err
		}
		row, err := orderdb.New(tx).MarkShipped(ctx, orderdb.MarkShippedParams{
			OrderNo: no, Bucket: no.Bucket(), Reason: completedByShipper, Actor: actions.OperatorIn(ctx),
		})
		if o, err = table.Announce(ctx, tx, orderevent.SubjectShipped, row, err); err != nil {
			return fmt.Errorf("order: mark %s shipped: %w", no, err)
		}
		changed = true
		if err := actions.Record(ctx, tx, &o, actions.Ship, sent.Carrier+" "+sent.TrackingNo); err != nil {
			return err
		}
		return audit.Record(ctx, tx, "order.ship", "order "+no.String(), audit.Change{
			Before: state{Status: o.Status, Parcel: before}, After: state{Status: o.Status, Parcel: &sent},
		})
	})
	if err == nil && changed {
		s.deps.Orders.Refresh(ctx, o)
	}
	return o, err
}

// errRefundOpen is errNotShippable of a list's order: an operator who ships a single one sees its
// refunds.
var errRefundOpen = errNotShippable.Saying(
	fault.T("A refund of this order is open. Decide it first, or ship the order on its own page.", "该订单有未完成的退款，请先处理退款，或在订单详情中单独发货。"))

// noRefundOpen fails with errRefundOpen; tx has locked the order's row, under which refunds are
// asked for.
func (s *Service) noRefundOpen(ctx context.Context, tx pgx.Tx, no ids.ID) error {
	open, err := s.deps.Payments.RefundOpen(ctx, tx, no)
	if err == nil && open {
		err = errRefundOpen
	}
	return err
}

// putShipment writes how an order whose row tx has locked was sent, and returns what
// was noted before, nil if nothing was. It fails with errNoParcel.
func putShipment(ctx context.Context, tx pgx.Tx, no ids.ID, sent Parcel) (before *Parcel, err error) {
	q := orderdb.New(tx)
	switch had, err := q.ShipmentOf(ctx, orderdb.ShipmentOfParams{OrderNo: no, Bucket: no.Bucket()}); {
	case err == nil:
		before = &Parcel{Carrier: had.Carrier, TrackingNo: had.TrackingNo}
	case !errors.Is(err, pgx.ErrNoRows):
		return nil, fmt.Errorf("order: read the shipment of %s: %w", no, err)
	}
	n, err := q.PutShipment(ctx, orderdb.PutShipmentParams{Bucket: no.Bucket(), OrderNo: no, Carrier: sent.Carrier, TrackingNo: sent.TrackingNo})
	if err != nil {
		return nil, fmt.Errorf("order: note the shipment of %s: %w", no, err)
	}
	if n == 0 {
		return nil, errNoParcel
	}
	return before, nil
}

var errNoNote = fault.Plain(fault.Invalid,
	fault.T("A note has a letter or a digit, and neither control characters nor characters that change the direction "+
		"of writing.",
		"备注须包含可见文字，且不能含有控制字符。"))

// note adds an operator's note to an order's history, as idempotency.Once with the key.
func (s *Service) note(ctx context.Context, no ids.ID, key, text string) (o orderevent.Order, err error) {
	text = plaintext.Clean(text)
	if !plaintext.Legible(text, true) {
		return o, errNoNote
	}
	err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		if o, err = lockAny(ctx, tx, no); err != nil {
			return err
		}
		_, err = idempotency.Once(ctx, tx, key, "order.note", []any{no, text}, func() (none struct{}, err error) {
			if err := actions.Record(ctx, tx, &o, actions.Note, text); err != nil {
				return none, err
			}
			// The log is never trimmed; the text, which may name people, is in the history alone.
			return none, audit.Record(ctx, tx, "order.note", "order "+no.String(), audit.Change{After: map[string]int{"length": len([]rune(text))}})
		})
		return err
	})
	return o, err
}

// lockAny returns an order with its row locked, or order.ErrNoOrder.
func lockAny(ctx context.Context, tx pgx.Tx, no ids.ID) (orderevent.Order, error) {
	row, err := table.Lock(ctx, tx, no, order.ErrNoOrder)
	return row.Order(), err
}

// How an order was completed: the reason in its history.
const (
	completedByPickup  = "pickup"
	completedByShipper = "shipped"
)

// Why an order cannot be completed.
var (
	errNoPickup = fault.Plain(fault.NotFound,
		fault.T("No order has this pickup code. It has twelve letters and digits.", "没有该提货码的订单；提货码为 12 位字母和数字。"))
	errPickedUp = fault.New(fault.Conflict, "picked-up", fault.T("This order was picked up", "该订单已取货"),
		fault.T("This order was picked up at completed_at; completed_by says who completed it.",
			"该订单已于 completed_at 取货，经办人见 completed_by。"),
		fault.T("Check completed_at and completed_by, and do not hand the goods over twice.", "请核对取货时间与经办人，勿重复交付。"))
	errNoParcel = fault.Plain(fault.Invalid,
		fault.T("This order is picked up at a store: complete it by its code (POST /api/v1/admin/pickups), or "+
			"without a carrier and tracking number.",
			"该订单为到店自提：请用提货码完成（POST /api/v1/admin/pickups），或不填快递公司和单号。"))
	errNotPaid = fault.New(fault.Conflict, "order-not-completable",
		fault.T("This order cannot be completed", "订单当前不可完成"),
		fault.T("Only a paid order can be completed.", "只有已付款的订单可以完成。"),
		fault.T("Read the order: complete it once it is paid.", "请查看订单状态，付款后方可完成。"))
)

func (s *Service) completionRoutes(rt *httpx.Router) {
	rt.API.Member("completed_at", huma.Schema{Type: huma.TypeString, Format: "date-time", Description: "When it was, of picked-up"})
	rt.API.Member("completed_by", huma.Schema{Type: huma.TypeString, Description: "Who it was, of picked-up", Examples: []any{"operator 7"}})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/pickups", ID: "pick-up-order", Tag: "operator", Role: auth.Operator, Scope: auth.OrdersWrite,
		Summary: "Hand an order over for its pickup code", Audit: "order.complete",
		NoKey:       "an order is completed once, and the repetition says that it is",
		Description: "Completes the paid order that the code belongs to, once. Spaces, dashes and case do not matter, nor whether O is typed for 0, I or L for 1.",
		Refuses:     []*fault.Error{fault.ErrNotFound, errPickedUp, errNotPaid},
		// A person types or scans one every few seconds; see package details for what this
		// leaves to those who guess.
		Limits: []httpx.Limit{{Rule: ratelimit.Rule{Name: "pickups", Count: 100, Per: time.Minute}, Of: httpx.OfUser}},
	}, s.pickUp)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/orders/{no}/complete", ID: "complete-order", Tag: "operator", Role: auth.Operator, Scope: auth.OrdersWrite,
		Summary: "Complete a paid order, with its tracking number if it was sent", Audit: "order.complete",
		NoKey:       "an order is completed once, and the repetition says that it is",
		Description: "An order that is not completed becomes so by itself --complete-after it was sent, or after its payment if nothing is to be sent or picked up, 90 days later if it was never noted as sent; one that is to be picked up takes no tracking number. An order that was sent before, or handed over, needs no body.",
		Refuses:     []*fault.Error{errNotPaid},
	}, s.completeRoute)
}

type pickupInput struct {
	Body struct {
		Code string `json:"code" minLength:"12" maxLength:"32" doc:"As the shopper shows it" example:"7K3M-Q9TD-X2HV"`
	} `nameHint:"PickupRequest"`
}

// pickUp completes the order of a pickup code.
func (s *Service) pickUp(ctx context.Context, in *pickupInput) (*AdminDetail, error) {
	no, ok, err := details.OrderOf(ctx, s.deps.DB, in.Body.Code)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errNoPickup
	}
	_, err = s.complete(ctx, no, "", completion{how: completedByPickup})
	if errors.Is(err, errNotPaid) {
		if at, by, done := s.handedOver(ctx, no); done {
			err = errPickedUp.With("completed_at", orderevent.Time(at)).With("completed_by", by)
		}
	}
	if err != nil {
		return nil, err
	}
	return s.detail(ctx, no)
}

// handedOver returns when an operator completed an order, with its pickup code or without, and which one.
func (s *Service) handedOver(ctx context.Context, no ids.ID) (at time.Time, by string, ok bool) {
	changes, err := orderdb.New(s.deps.DB).HistoryOfOrder(ctx, orderdb.HistoryOfOrderParams{Bucket: no.Bucket(), OrderNo: no})
	if err != nil {
		return at, "", false // the answer then says that the order is not paid, which is true
	}
	for _, c := range changes {
		if c.Status == orderevent.StatusCompleted {
			return c.At, c.Actor, true
		}
	}
	return at, "", false
}

type completeInput struct {
	No   string  `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	Body *Parcel `required:"false"`
}

// completeRoute completes an order that was sent, or handed over in another way.
func (s *Service) completeRoute(ctx context.Context, in *completeInput) (*AdminDetail, error) {
	return s.after(ctx, in.No, func(no ids.ID) (orderevent.Order, error) {
		return s.complete(ctx, no, "", completion{how: completedByShipper, sent: in.Body})
	})
}

// completion is how an operator completes an order.
type completion struct {
	how  string  // the reason in the history
	sent *Parcel // nil if it was handed over in another way
	note string  // the operator's words; may be empty
}

// complete completes a paid order at the request of the operator in ctx, as
// idempotency.Once with the key. It fails with not-found, order-not-completable, or
// invalid for a parcel of an order that is to be picked up.
func (s *Service) complete(ctx context.Context, no ids.ID, key string, by completion) (o orderevent.Order, err error) {
	if by.sent != nil {
		if err := by.sent.check(); err != nil {
			return o, err
		}
	}
	fresh := false
	err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		fresh = false // InTx may run this again
		_, err := idempotency.Once(ctx, tx, key, "order.complete", []any{no, by.how, by.sent, by.note}, func() (struct{}, error) {
			fresh = true
			o, err = s.completeIn(ctx, tx, no, by)
			return struct{}{}, err
		})
		if err == nil && !fresh {
			o, err = lockAny(ctx, tx, no)
		}
		return err
	})
	if err == nil && fresh {
		s.deps.Orders.Committed(ctx, o)
	}
	return o, err
}

func (s *Service) completeIn(ctx context.Context, tx pgx.Tx, no ids.ID, by completion) (done orderevent.Order, err error) {
	q := orderdb.New(tx)
	row, err := q.CompleteOrder(ctx, orderdb.CompleteOrderParams{
		OrderNo: no, Bucket: no.Bucket(), Reason: by.how, Actor: actions.OperatorIn(ctx), Sent: by.sent != nil,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		have, err := lockAny(ctx, tx, no)
		if err == nil {
			err = errNotPaid.With("order_status", have.Status)
		}
		return done, err
	}
	if done, err = table.Announce(ctx, tx, orderevent.SubjectCompleted, row, err); err != nil {
		return done, fmt.Errorf("order: complete %s: %w", no, err)
	}
	change := audit.Change{Before: state{Status: orderevent.StatusPaid}, After: state{Status: done.Status, Reason: by.how}, Reason: by.note}
	if by.sent != nil {
		before, err := putShipment(ctx, tx, no, *by.sent)
		if err != nil {
			return done, err
		}
		change.Before, change.After = state{orderevent.StatusPaid, "", before}, state{done.Status, by.how, by.sent}
	}
	if by.note != "" {
		if err := actions.Record(ctx, tx, &done, actions.Complete, by.note); err != nil {
			return done, err
		}
	}
	return done, audit.Record(ctx, tx, "order.complete", "order "+no.String(), change)
}
