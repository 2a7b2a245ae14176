package order

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"stampede/order/details"
	"stampede/order/dispute"
	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

// How an order was completed: the reason in its history.
const (
	completedByPickup  = "pickup"
	completedByShipper = "shipped"
	completedByRule    = "time"
)

// Why an order cannot be completed.
var (
	errNoPickup = fault.Plain(fault.NotFound, "No order has this pickup code. It has twelve letters and digits.")
	errPickedUp = fault.New(fault.Conflict, "picked-up", fault.Titles{"This order was picked up", "该订单已取货"}, "This order was picked up at completed_at; completed_by says who accepted the code.")
	errNoParcel = fault.Plain(fault.Invalid, "This order is picked up at a store: complete it by its code (POST /api/v1/admin/pickups), or without a carrier and tracking number.")
	errNotPaid  = fault.New(fault.Conflict, "order-not-completable", fault.Titles{"This order cannot be completed", "订单当前不可完成"}, "Only a paid order can be completed.")
)

func (s *Service) completionRoutes(rt *httpx.Router) {
	rt.API.Member("completed_at", huma.Schema{Type: huma.TypeString, Format: "date-time", Description: "When it was, of picked-up"})
	rt.API.Member("completed_by", huma.Schema{Type: huma.TypeString, Description: "Who it was, of picked-up", Examples: []any{"operator 7"}})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/pickups", ID: "pick-up-order", Tag: "operator", Role: auth.Operator,
		Summary:     "Hand an order over for its pickup code",
		Description: "Completes the paid order that the code belongs to, once. Spaces, dashes and case do not matter, nor whether O is typed for 0, I or L for 1.",
		Problems: map[int]string{
			http.StatusNotFound: "not-found", http.StatusConflict: "picked-up, order-not-completable", http.StatusUnprocessableEntity: "invalid",
		},
		// A person types or scans one every few seconds; see package details for what this
		// leaves to those who guess.
		Limits: []httpx.Limit{{Rule: ratelimit.Rule{Name: "pickups", Count: 100, Per: time.Minute}, Of: httpx.OfUser}},
	}, s.pickUp)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/orders/{no}/complete", ID: "complete-order", Tag: "operator", Role: auth.Operator,
		Summary:     "Complete a paid order, with its tracking number if it was sent",
		Description: "An order that is not completed becomes so by itself --complete-after its payment, unless it is to be picked up; such an order takes no tracking number.",
		Problems: map[int]string{
			http.StatusNotFound: "not-found", http.StatusConflict: "order-not-completable", http.StatusUnprocessableEntity: "invalid",
		},
	}, s.completeRoute)
}

type pickupInput struct {
	Body struct {
		Code string `json:"code" minLength:"12" maxLength:"32" doc:"As the shopper shows it" example:"7K3M-Q9TD-X2HV"`
	} `nameHint:"PickupRequest"`
}

// pickUp completes the order of a pickup code.
func (s *Service) pickUp(ctx context.Context, in *pickupInput) (*adminOrderOutput, error) {
	no, ok, err := details.OrderOf(ctx, s.deps.DB, in.Body.Code)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errNoPickup
	}
	err = s.complete(ctx, no, completedByPickup, nil)
	if errors.Is(err, errNotPaid) {
		if at, by, pickedUp := s.pickedUp(ctx, no); pickedUp {
			err = errPickedUp.With("completed_at", orderevent.Time(at)).With("completed_by", by)
		}
	}
	if err != nil {
		return nil, err
	}
	return s.adminDetail(ctx, &orderInput{No: no.String()})
}

// pickedUp returns when an order was picked up and who handed it over.
func (s *Service) pickedUp(ctx context.Context, no ids.ID) (at time.Time, by string, ok bool) {
	changes, err := orderdb.New(s.deps.DB).HistoryOfOrder(ctx, orderdb.HistoryOfOrderParams{Bucket: no.Bucket(), OrderNo: no})
	if err != nil {
		return at, "", false // the answer then says that the order is not paid, which is true
	}
	for _, c := range changes {
		if c.Status == orderevent.StatusCompleted && c.Reason == completedByPickup {
			return c.At, c.Actor, true
		}
	}
	return at, "", false
}

type completeInput struct {
	No   string `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	Body *struct {
		Carrier    string `json:"carrier" minLength:"1" maxLength:"60" example:"SF Express"`
		TrackingNo string `json:"tracking_no" minLength:"1" maxLength:"64" example:"SF1234567890"`
	} `required:"false" nameHint:"ShipmentRequest"`
}

// completeRoute completes an order that was sent, or handed over in another way.
func (s *Service) completeRoute(ctx context.Context, in *completeInput) (*adminOrderOutput, error) {
	path := orderInput{No: in.No}
	no, err := path.number()
	if err != nil {
		return nil, errNoOrder.Because(err)
	}
	var sent *orderdb.PutShipmentParams
	if in.Body != nil {
		sent = &orderdb.PutShipmentParams{Bucket: no.Bucket(), OrderNo: no, Carrier: in.Body.Carrier, TrackingNo: in.Body.TrackingNo}
	}
	if err := s.complete(ctx, no, completedByShipper, sent); err != nil {
		return nil, err
	}
	return s.adminDetail(ctx, &path)
}

// complete turns a paid order into a completed one at an operator's request. It
// fails with errNoOrder, errNotPaid, or errNoParcel if it is to be picked up but was sent.
func (s *Service) complete(ctx context.Context, no ids.ID, how string, sent *orderdb.PutShipmentParams) error {
	var done orderevent.Order
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		q := orderdb.New(tx)
		row, err := q.CompleteOrder(ctx, orderdb.CompleteOrderParams{
			OrderNo: no, Bucket: no.Bucket(), Reason: how, Actor: "operator " + httpx.FormatID(auth.From(ctx).UserID),
		})
		if errors.Is(err, pgx.ErrNoRows) {
			have, err := q.ReadOrder(ctx, orderdb.ReadOrderParams{OrderNo: no, Bucket: no.Bucket()})
			if errors.Is(err, pgx.ErrNoRows) {
				return errNoOrder
			}
			if err != nil {
				return fmt.Errorf("order: read %s: %w", no, err)
			}
			return errNotPaid.With("order_status", have.Status)
		}
		if err != nil {
			return fmt.Errorf("order: complete %s: %w", no, err)
		}
		done = fromRow(orderdb.OrdersOrder(row))
		detail := map[string]string{"how": how}
		if sent != nil {
			n, err := q.PutShipment(ctx, *sent)
			if err != nil {
				return fmt.Errorf("order: note the shipment of %s: %w", no, err)
			}
			if n == 0 {
				return errNoParcel
			}
			detail["carrier"], detail["tracking_no"] = sent.Carrier, sent.TrackingNo
		}
		if err := audit.Record(ctx, tx, "order.complete", "order "+no.String(), detail); err != nil {
			return err
		}
		_, err = appendEvents(ctx, tx, orderevent.SubjectCompleted, []orderevent.Order{done})
		return err
	})
	if err == nil {
		s.Announce(ctx, done)
	}
	return err
}

const (
	// keepHouseEvery is how often orders are completed by rule, which counts days,
	// and personal data is erased.
	keepHouseEvery = time.Minute
	// completeLimit is how many orders one transaction completes.
	completeLimit = 500
)

// housekeeping completes what was paid long ago and erases what is kept no longer.
func (s *Service) housekeeping(ctx context.Context) error {
	return app.Loop{Every: keepHouseEvery, Do: s.keepHouse, Log: s.deps.Log, Failed: "completing and erasing of old orders failed"}.Run(ctx)
}

func (s *Service) keepHouse(ctx context.Context) error {
	err := errors.Join(details.Erase(ctx, s.deps.DB, s.cfg.KeepDetails), dispute.Erase(ctx, s.deps.DB, s.cfg.KeepDetails))
	for n := completeLimit; n == completeLimit && err == nil && s.cfg.CompleteAfter > 0; {
		n, err = s.completeDue(ctx)
	}
	return err
}

// completeDue completes the orders that were paid CompleteAfter ago and are not to be
// picked up, in one transaction, and returns how many. Instances share the work: each
// gets orders that no other has locked.
func (s *Service) completeDue(ctx context.Context) (int, error) {
	var done []orderevent.Order
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		rows, err := orderdb.New(tx).CompleteDue(ctx, orderdb.CompleteDueParams{After: s.cfg.CompleteAfter, Most: completeLimit, Reason: completedByRule})
		if err != nil {
			return fmt.Errorf("order: complete due orders: %w", err)
		}
		done = done[:0] // InTx may run this again
		for _, r := range rows {
			done = append(done, fromRow(orderdb.OrdersOrder(r)))
		}
		_, err = appendEvents(ctx, tx, orderevent.SubjectCompleted, done)
		return err
	})
	if err == nil && len(done) > 0 {
		s.Announce(ctx, done...)
	}
	return len(done), err
}
