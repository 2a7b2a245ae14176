package order

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"stampede/order/acts"
	"stampede/order/details"
	"stampede/order/dispute"
	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/idempotency"
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
	errNoPickup = fault.Plain(fault.NotFound,
		fault.T("No order has this pickup code. It has twelve letters and digits.", "没有该提货码的订单；提货码为 12 位字母和数字。"))
	errPickedUp = fault.New(fault.Conflict, "picked-up", fault.T("This order was picked up", "该订单已取货"),
		fault.T("This order was picked up at completed_at; completed_by says who accepted the code.",
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
		Description: "An order that is not completed becomes so by itself --complete-after its payment, unless it is to be picked up; such an order takes no tracking number. An order that was sent before, or handed over, needs no body.",
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
		if at, by, pickedUp := s.pickedUp(ctx, no); pickedUp {
			err = errPickedUp.With("completed_at", orderevent.Time(at)).With("completed_by", by)
		}
	}
	if err != nil {
		return nil, err
	}
	return s.Detail(ctx, no)
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
	No   string  `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	Body *Parcel `required:"false"`
}

// completeRoute completes an order that was sent, or handed over in another way.
func (s *Service) completeRoute(ctx context.Context, in *completeInput) (*AdminDetail, error) {
	no, err := AdminNumber(in.No)
	if err == nil {
		_, err = s.Complete(ctx, no, "", in.Body, "")
	}
	if err != nil {
		return nil, err
	}
	return s.Detail(ctx, no)
}

// Complete completes a paid order at the request of the operator in ctx, as
// idempotency.Once with the key. It was sent as sent says, or handed over in another
// way if that is nil; note is the operator's words and may be empty. It fails with
// not-found, order-not-completable, or invalid for a parcel of an order that is to be
// picked up.
func (s *Service) Complete(ctx context.Context, no ids.ID, key string, sent *Parcel, note string) (orderevent.Order, error) {
	return s.complete(ctx, no, key, completion{how: completedByShipper, sent: sent, note: note})
}

// completion is how an operator completes an order.
type completion struct {
	how  string // the reason in the history
	sent *Parcel
	note string
}

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
		s.Announce(ctx, o)
	}
	return o, err
}

func (s *Service) completeIn(ctx context.Context, tx pgx.Tx, no ids.ID, by completion) (done orderevent.Order, err error) {
	q := orderdb.New(tx)
	row, err := q.CompleteOrder(ctx, orderdb.CompleteOrderParams{OrderNo: no, Bucket: no.Bucket(), Reason: by.how, Actor: operatorIn(ctx)})
	if errors.Is(err, pgx.ErrNoRows) {
		have, err := lockAny(ctx, tx, no)
		if err == nil {
			err = errNotPaid.With("order_status", have.Status)
		}
		return done, err
	}
	if err != nil {
		return done, fmt.Errorf("order: complete %s: %w", no, err)
	}
	done = fromRow(orderdb.OrdersOrder(row))
	change := audit.Change{Before: state{Status: orderevent.StatusPaid}, After: state{Status: done.Status, Reason: by.how}, Reason: by.note}
	if by.sent != nil {
		before, err := putShipment(ctx, tx, no, *by.sent)
		if err != nil {
			return done, err
		}
		change.Before, change.After = state{orderevent.StatusPaid, "", before}, state{done.Status, by.how, by.sent}
	}
	if by.note != "" {
		if err := acted(ctx, tx, &done, acts.Complete, by.note); err != nil {
			return done, err
		}
	}
	if err := audit.Record(ctx, tx, "order.complete", "order "+no.String(), change); err != nil {
		return done, err
	}
	_, err = appendEvents(ctx, tx, orderevent.SubjectCompleted, []orderevent.Order{done})
	return done, err
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
	return app.Loop{Every: keepHouseEvery, Do: s.keepHouse, Log: s.deps.Log, Failed: "completing, erasing or archiving of old orders failed"}.Run(ctx)
}

func (s *Service) keepHouse(ctx context.Context) error {
	err := errors.Join(details.Erase(ctx, s.deps.DB, s.cfg.KeepDetails), dispute.Erase(ctx, s.deps.DB, s.cfg.KeepDetails), acts.Erase(ctx, s.deps.DB, s.cfg.KeepDetails))
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
