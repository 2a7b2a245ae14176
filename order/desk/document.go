package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"stampede/order"
	"stampede/order/actions"
	"stampede/order/carrier"
	"stampede/order/details"
	"stampede/order/dispute"
	"stampede/order/disputeevent"
	"stampede/order/internal/orderdb"
	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/payment/view"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/account"
	"stampede/seckill/seckillevent"
)

func (s *Service) documentRoutes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/orders/{no}/document", ID: "get-order-document", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper,
		Summary: "All there is to an order: goods, payment, delivery or pickup, timeline",
		Description: "Read it when an order is shown, and again when `version` of GET /api/v1/orders/{no} has risen: that one is made for polling, this one reads " +
			"several tables.",
	}, s.documentRoute)
}

// wholeOrder is an order with all that belongs to it, as its shopper reads it.
type wholeOrder struct {
	Order    orderevent.OrderView `json:"order"`
	Checkout *unsettled           `json:"checkout,omitempty" doc:"What is to be settled before the payment; given while the order waits for it"`
	About
	Payment  *shoppersPayment `json:"payment,omitempty" doc:"The one that paid the order; else the latest that is open or was paid too late"`
	Refund   string           `json:"refund_until,omitempty" format:"date-time" doc:"Until when the shopper may refund it; left out if not, or not any more"`
	Pickup   *pickup          `json:"pickup,omitempty" doc:"Given once the order is paid, until it is picked up"`
	Timeline []timelineEntry  `json:"timeline" nullable:"false" doc:"Oldest first"`
}

// shoppersPayment is a payment as its shopper reads it.
type shoppersPayment struct {
	view.PaymentView
	Chargebacks []shoppersChargeback `json:"chargebacks,omitempty" nullable:"false" doc:"Left out where there is none"`
}

// shoppersChargeback leaves out what is between the shop and its provider: the number, what
// the bank gives as the reason, and until when the shop may answer.
type shoppersChargeback struct {
	Amount    orderevent.Money `json:"amount"`
	Status    string           `json:"status" doc:"inquiry: the bank asks, and takes no money yet; open: not decided yet; won: by the shop; lost: the bank keeps the money; closed: it ended before money moved"`
	Withdrawn bool             `json:"withdrawn" doc:"The bank has the money back"`
	CreatedAt string           `json:"created_at" format:"date-time"`
	UpdatedAt string           `json:"updated_at" format:"date-time"`
}

// paying returns a shopper's view of the payment that paid the order, else of the latest
// that is open or was paid too late. A payment beside the one that paid may have been
// captured too, and later; its money goes back.
func (w *record) paying() (view *shoppersPayment) {
	for _, p := range w.payments {
		paid := w.paidBy == pgtype.UUID{Bytes: p.PaymentNo, Valid: true}
		if !paid && view != nil && p.Status == paymentClosed {
			continue
		}
		view = &shoppersPayment{PaymentView: p}
		for _, c := range p.Chargebacks {
			view.Chargebacks = append(view.Chargebacks, shoppersChargeback{c.Amount, c.Status, c.Withdrawn, c.CreatedAt, c.UpdatedAt})
		}
		if paid {
			return view
		}
	}
	return view
}

// unsettled is what an order's activity asks for, and what of it is missing.
type unsettled struct {
	seckillevent.CheckoutView
	Missing []string `json:"missing" nullable:"false" doc:"Members of PUT /api/v1/orders/{no}/details without which the order cannot be paid" example:"[\"name\"]"`
}

// pickup is what the shopper shows at the store.
type pickup struct {
	Code  string `json:"code" example:"7K3M-Q9TD-X2HV"`
	Image string `json:"image" doc:"Path of the code as a QR picture; it needs the token too" example:"/api/v1/orders/0198f2c8b5d07c3e9a4f1b2c3d4e5f60/pickup-code.png"`
}

// About is what shoppers and operators read of an order beside its row.
type About struct {
	SKU      string            `json:"sku,omitempty" doc:"The shop's own name for the goods"`
	Spec     string            `json:"spec,omitempty" doc:"Which variant it is"`
	ImageURL string            `json:"image_url,omitempty"`
	Activity *namedSpan        `json:"activity,omitempty"`
	Session  *namedSpan        `json:"session,omitempty"`
	Phone    string            `json:"phone,omitempty" doc:"The account's; viewers read it masked"`
	Details  *details.Details  `json:"details,omitempty" doc:"What the shopper settled before the payment; viewers read it masked"`
	Shipment *carrier.Shipment `json:"shipment,omitempty"`
	Dispute  *dispute.State    `json:"dispute,omitempty" doc:"The latest one; its texts are at GET /api/v1/orders/{no}/disputes"`
	disputes []dispute.State
}

// namedSpan is a named time.
type namedSpan struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Starts string `json:"starts_at" format:"date-time"`
	Ends   string `json:"ends_at" format:"date-time"`
}

// timelineEntry is one line of an order's timeline.
type timelineEntry struct {
	At     string            `json:"at" format:"date-time"`
	Of     string            `json:"of" enum:"order,payment,refund,dispute" doc:"What changed"`
	Status string            `json:"status" doc:"What it became"`
	Reason string            `json:"reason,omitempty" doc:"Why, where there is a reason" example:"timeout"`
	Number *ids.ID           `json:"number,omitempty" doc:"Of the payment, the refund or the dispute" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f61"`
	Amount *orderevent.Money `json:"amount,omitempty" doc:"Of the payment or the refund"`
}

func (s *Service) documentRoute(ctx context.Context, in *orderInput) (*httpx.Output[wholeOrder], error) {
	no, err := order.Number(in.No, order.ErrNotFound)
	if err != nil {
		return nil, err
	}
	return s.readDocument(ctx, no, auth.From(ctx).UserID)
}

// readDocument reads Postgres and not the cache: the document is read rarely and
// shows one moment.
func (s *Service) readDocument(ctx context.Context, no ids.ID, user int64) (*httpx.Output[wholeOrder], error) {
	if no.Bucket() != ids.Bucket(user) {
		return nil, order.ErrNotFound
	}
	all, err := s.readRecord(ctx, no)
	if err == nil && all.order.UserID != user {
		err = order.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	o := &all.order
	doc := wholeOrder{Order: orderevent.View(*o), About: all.About, Timeline: timeline(all)}
	if ask := all.sale.Checkout; o.Status == orderevent.StatusPending && len(all.payments) == 0 && (!ask.Settled() || len(ask.Ways) > 0) {
		doc.Checkout = &unsettled{CheckoutView: ask.View(), Missing: []string{}}
		if all.Details == nil && !ask.Settled() {
			doc.Checkout.Missing = details.Missing(&ask)
		}
	}
	doc.Payment = all.paying()
	if doc.Refund, err = s.refundUntil(ctx, all); err != nil {
		return nil, order.ErrReading.Because(err)
	}
	if d := all.Details; d != nil && d.Code != "" && o.Status == orderevent.StatusPaid {
		doc.Pickup = &pickup{Code: d.Code, Image: "/api/v1/orders/" + no.String() + "/pickup-code.png"}
	}
	return httpx.Answer(doc), nil
}

// paymentClosed is the status of a PaymentView that cannot be paid any more.
const paymentClosed = "closed"

// record is an order with all that belongs to it.
type record struct {
	About
	order    orderevent.Order
	paidBy   pgtype.UUID // the payment that paid the order
	sale     seckillevent.Sale
	payments []view.PaymentView
	history  []statusChange
	actions  []actions.Action // operators read them
}

// readRecord reads an order with all that belongs to it. It fails with order.ErrNotFound, or
// ErrReading.
func (s *Service) readRecord(ctx context.Context, no ids.ID) (*record, error) {
	row, err := table.Read(ctx, s.deps.DB, no, order.ErrNotFound)
	if errors.Is(err, order.ErrNotFound) {
		return nil, err
	}
	if err != nil {
		return nil, order.ErrReading.Because(err)
	}
	all := &record{order: row.Order(), paidBy: row.PaymentNo}
	if err := s.readParts(ctx, all); err != nil {
		return nil, order.ErrReading.Because(err)
	}
	sale := &all.sale
	all.SKU, all.Spec, all.ImageURL = sale.SKU, sale.Spec, sale.ImageURL
	if sale.SKU != "" {
		all.Activity = &namedSpan{httpx.FormatID(row.ActivityID), sale.Activity, orderevent.Time(sale.StartsAt), orderevent.Time(sale.EndsAt)}
		all.Session = &namedSpan{httpx.FormatID(row.SessionID), sale.Session, orderevent.Time(sale.OpensAt), orderevent.Time(sale.ClosesAt)}
	}
	return all, nil
}

// readParts reads what belongs to an order that is read.
func (s *Service) readParts(ctx context.Context, all *record) error {
	no := all.order.No
	q := orderdb.New(s.deps.DB)
	changes, err := q.HistoryOfOrder(ctx, orderdb.HistoryOfOrderParams{Bucket: no.Bucket(), OrderNo: no})
	if err != nil {
		return fmt.Errorf("order: read the history of %s: %w", no, err)
	}
	all.history = history(all.order, changes)
	if all.actions, err = actions.Of(ctx, s.deps.DB, no); err != nil {
		return err
	}
	if all.payments, err = s.deps.Payments.Of(ctx, no); err != nil {
		return err
	}
	if all.sale, err = s.deps.Plan.SaleOf(ctx, all.order.ItemID); err != nil {
		return err // it names the module and the operation
	}
	if s.deps.Accounts != nil {
		phones, err := s.deps.Accounts.PhonesOf(ctx, []int64{all.order.UserID})
		if err != nil {
			return err // it names the module and the operation
		}
		all.Phone = phones[all.order.UserID]
	}
	d, settled, err := details.Read(ctx, s.deps.DB, no)
	if err != nil {
		return err
	}
	if settled {
		all.Details = &d
	}
	if all.disputes, err = s.disputes.Of(ctx, no); err != nil {
		return err
	}
	if n := len(all.disputes); n > 0 {
		all.Dispute = &all.disputes[n-1]
	}
	sent, err := q.ShipmentOf(ctx, orderdb.ShipmentOfParams{OrderNo: no, Bucket: no.Bucket()})
	switch {
	case err == nil:
		all.Shipment = carrier.ShipmentOf(sent.Carrier, sent.TrackingNo, sent.At, int(httpx.LanguageFrom(ctx)))
	case !errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("order: read the shipment of %s: %w", no, err)
	}
	return nil
}

// masked hides what only those may read who serve the shopper.
func (a About) masked() About {
	a.Phone = account.Phone(a.Phone).Masked()
	if a.Details != nil {
		d := a.Details.Masked()
		a.Details = &d
	}
	return a
}

// timeline lists what happened to an order, to its money and in its disputes, oldest
// first. Of a payment, a refund and a dispute it has the beginning and the present state.
func timeline(all *record) []timelineEntry {
	var line []timelineEntry
	for _, c := range all.history {
		line = append(line, timelineEntry{At: c.At, Of: "order", Status: c.Status, Reason: orderevent.ShoppersReason(c.Reason)})
	}
	for i := range all.payments {
		p := &all.payments[i]
		line = append(line, timelineEntry{At: p.CreatedAt, Of: "payment", Status: "created", Number: &p.PaymentNo, Amount: &p.Amount})
		if p.Status != "created" {
			line = append(line, timelineEntry{At: p.UpdatedAt, Of: "payment", Status: p.Status, Number: &p.PaymentNo, Amount: &p.Amount})
		}
		for j := range p.Refunds {
			r := &p.Refunds[j]
			line = append(line, timelineEntry{At: r.CreatedAt, Of: "refund", Status: "requested", Reason: r.Reason, Number: &r.RefundNo, Amount: &r.Amount})
			if r.Status != "requested" {
				line = append(line, timelineEntry{At: r.UpdatedAt, Of: "refund", Status: r.Status, Number: &r.RefundNo, Amount: &r.Amount})
			}
		}
	}
	for i := range all.disputes {
		d := &all.disputes[i]
		line = append(line, timelineEntry{At: d.CreatedAt, Of: "dispute", Status: disputeevent.StatusOpen, Number: &d.DisputeNo})
		if d.Status != disputeevent.StatusOpen {
			line = append(line, timelineEntry{At: d.UpdatedAt, Of: "dispute", Status: d.Status, Reason: d.Outcome, Number: &d.DisputeNo})
		}
	}
	slices.SortStableFunc(line, func(a, b timelineEntry) int { return cmp.Compare(a.At, b.At) })
	return line
}
