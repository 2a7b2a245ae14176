package order

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/acts"
	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/base/plaintext"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/idempotency"
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
		if *text = plaintext.Clean(*text); !strings.ContainsFunc(*text, plaintext.Visible) || strings.ContainsFunc(*text, plaintext.Unruly) {
			return errNoText
		}
	}
	return nil
}

func (s *Service) actingRoutes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPut, Path: "/api/v1/admin/orders/{no}/shipment", ID: "ship-order", Tag: "operator", Role: auth.Operator,
		Summary:     "Note how a paid order was sent, or correct it",
		Description: "The shopper reads the carrier and the tracking number, and can no longer return the order without the shop. The order is completed later, by its own route or by time.",
		Problems:    map[int]string{http.StatusNotFound: "not-found", http.StatusConflict: "order-not-shippable", http.StatusUnprocessableEntity: "invalid"},
	}, s.shipRoute)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/orders/{no}/notes", ID: "note-on-order", Tag: "operator", Role: auth.Operator,
		Summary:  "Add a note to an order's history, which only operators read",
		Problems: map[int]string{http.StatusNotFound: "not-found"},
	}, s.noteRoute)
}

type shipInput struct {
	No   string `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	Body Parcel
}

func (s *Service) shipRoute(ctx context.Context, in *shipInput) (*AdminDetail, error) {
	no, err := AdminNumber(in.No)
	if err == nil {
		_, err = s.Ship(ctx, no, in.Body)
	}
	if err != nil {
		return nil, err
	}
	return s.Detail(ctx, no)
}

type noteInput struct {
	No string `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	idempotency.Header
	Body struct {
		Text string `json:"text" minLength:"1" maxLength:"500" pattern:"\\S" example:"The shopper asked for delivery after Friday."`
	} `nameHint:"OrderNote"`
}

func (s *Service) noteRoute(ctx context.Context, in *noteInput) (*AdminDetail, error) {
	no, err := AdminNumber(in.No)
	if err == nil {
		_, err = s.Note(ctx, no, in.Key, in.Body.Text)
	}
	if err != nil {
		return nil, err
	}
	return s.Detail(ctx, no)
}

// AdminNumber parses an order's number in an operator's request.
func AdminNumber(text string) (ids.ID, error) {
	no, err := ids.Parse(text)
	if err != nil {
		return no, errNoOrder.Because(err)
	}
	return no, nil
}

// operatorIn is how an order's history names the operator of a request.
func operatorIn(ctx context.Context) string {
	return "operator " + httpx.FormatID(auth.From(ctx).UserID)
}

// ShopperIn is how an order's history names who acts on a shopper's routes: the shopper,
// or the holder of a token that was minted for the shopper.
func ShopperIn(ctx context.Context) string {
	if auth.From(ctx).Act != "" {
		return "minted token"
	}
	return "shopper"
}

// state is what the audit log has of an order before and after a change.
type state struct {
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
	*Parcel
}

// ClaimAny is Claim at an operator's request, whose order it is does not matter.
func (s *Service) ClaimAny(ctx context.Context, no ids.ID) (Claimed, error) {
	row, err := read(ctx, s.deps.DB, no)
	if errors.Is(err, pgx.ErrNoRows) {
		return Claimed{}, errNoOrder
	}
	if err != nil {
		return Claimed{}, fmt.Errorf("order: read %s: %w", no, err)
	}
	if row.Status == orderevent.StatusClosed && row.Reason == orderevent.ReasonWithdrawn {
		return Claimed{Order: fromRow(row)}, nil // a repetition
	}
	return s.Claim(ctx, no, row.UserID)
}

// Withdraw is CloseClaimed at the request of the operator in ctx, who says why. It
// returns false if the order is no longer pending or its claim has expired.
func (s *Service) Withdraw(ctx context.Context, no ids.ID, why string) (orderevent.Order, bool, error) {
	closed, err := s.closeTogether(ctx, []ids.ID{no}, closeAs{
		reason: orderevent.ReasonWithdrawn, actor: operatorIn(ctx),
		also: func(ctx context.Context, tx pgx.Tx, closed []orderevent.Order) error {
			for i := range closed {
				o := &closed[i]
				if err := acted(ctx, tx, o, acts.Cancel, why); err != nil {
					return err
				}
				change := audit.Change{Before: state{Status: orderevent.StatusPending}, After: state{Status: o.Status, Reason: o.Reason}, Reason: why}
				if err := audit.Record(ctx, tx, "order.cancel", "order "+o.No.String(), change); err != nil {
					return err
				}
			}
			return nil
		},
	})
	if err != nil || len(closed) == 0 {
		return orderevent.Order{}, false, err
	}
	return closed[0], true, nil
}

// NoteRefund adds to an order's history that the operator in ctx asked for a refund of
// it, and why; in the transaction that does.
func NoteRefund(ctx context.Context, tx pgx.Tx, o *orderevent.Order, why string) error {
	return acted(ctx, tx, o, acts.Refund, why)
}

func acted(ctx context.Context, tx pgx.Tx, o *orderevent.Order, action, why string) error {
	return acts.Put(ctx, tx, o.No, o.UserID, acts.Act{Operator: auth.From(ctx).UserID, Action: action, Text: why, Version: o.Version})
}

// Ship notes how a paid order was sent, or corrects it. Repeating it changes nothing.
// It fails with not-found, order-not-shippable, or invalid for an order that is to be
// picked up.
func (s *Service) Ship(ctx context.Context, no ids.ID, sent Parcel) (orderevent.Order, error) {
	var o orderevent.Order
	if err := sent.check(); err != nil {
		return o, err
	}
	changed := false
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) (err error) {
		changed = false // InTx may run this again
		if o, err = lockAny(ctx, tx, no); err != nil {
			return err
		}
		if o.Status != orderevent.StatusPaid && o.Status != orderevent.StatusCompleted {
			return errNotShippable.With("order_status", o.Status)
		}
		before, err := putShipment(ctx, tx, no, sent)
		if err != nil || before != nil && *before == sent {
			return err
		}
		row, err := orderdb.New(tx).MarkShipped(ctx, orderdb.MarkShippedParams{OrderNo: no, Bucket: no.Bucket(), Reason: completedByShipper, Actor: operatorIn(ctx)})
		if err != nil {
			return fmt.Errorf("order: mark %s shipped: %w", no, err)
		}
		o, changed = fromRow(orderdb.OrdersOrder(row)), true
		if err := acted(ctx, tx, &o, acts.Ship, sent.Carrier+" "+sent.TrackingNo); err != nil {
			return err
		}
		if err := audit.Record(ctx, tx, "order.ship", "order "+no.String(), audit.Change{Before: state{Status: o.Status, Parcel: before}, After: state{Status: o.Status, Parcel: &sent}}); err != nil {
			return err
		}
		_, err = appendEvents(ctx, tx, orderevent.SubjectShipped, []orderevent.Order{o})
		return err
	})
	if err == nil && changed {
		s.Show(ctx, o)
	}
	return o, err
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

// SentAt returns when an order's parcel left the shop; false if none did.
func SentAt(ctx context.Context, tx pgx.Tx, no ids.ID) (at time.Time, ok bool, err error) {
	row, err := orderdb.New(tx).ShipmentOf(ctx, orderdb.ShipmentOfParams{OrderNo: no, Bucket: no.Bucket()})
	if errors.Is(err, pgx.ErrNoRows) {
		return at, false, nil
	}
	if err != nil {
		return at, false, fmt.Errorf("order: read the shipment of %s: %w", no, err)
	}
	return row.At, true, nil
}

var errNoNote = fault.Plain(fault.Invalid,
	fault.T("A note has a letter or a digit, and neither control characters nor characters that change the direction "+
		"of writing.",
		"备注须包含可见文字，且不能含有控制字符。"))

// Note adds an operator's note to an order's history, as idempotency.Once with the key.
func (s *Service) Note(ctx context.Context, no ids.ID, key, text string) (o orderevent.Order, err error) {
	text = plaintext.Clean(text)
	if !strings.ContainsFunc(text, plaintext.Visible) || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && plaintext.Unruly(r) }) {
		return o, errNoNote
	}
	err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		if o, err = lockAny(ctx, tx, no); err != nil {
			return err
		}
		_, err = idempotency.Once(ctx, tx, key, "order.note", []any{no, text}, func() (none struct{}, err error) {
			if err := acted(ctx, tx, &o, acts.Note, text); err != nil {
				return none, err
			}
			// The log is never trimmed; the text, which may name people, is in the history alone.
			return none, audit.Record(ctx, tx, "order.note", "order "+no.String(), audit.Change{After: map[string]int{"length": len([]rune(text))}})
		})
		return err
	})
	return o, err
}

// lockAny returns an order with its row locked, or errNoOrder.
func lockAny(ctx context.Context, tx pgx.Tx, no ids.ID) (orderevent.Order, error) {
	row, err := lock(ctx, tx, no)
	if errors.Is(err, pgx.ErrNoRows) {
		return orderevent.Order{}, errNoOrder
	}
	if err != nil {
		return orderevent.Order{}, fmt.Errorf("order: lock %s: %w", no, err)
	}
	return fromRow(row), nil
}

// withActs adds operators' acts to an order's history: the words to the change that the
// act made, and a line of its own for an act that changed nothing else.
func withActs(lines []statusChange, list []acts.Act) []statusChange {
	for _, a := range list {
		actor := "operator " + httpx.FormatID(a.Operator)
		at := len(lines)
		for at > 0 && lines[at-1].Version > a.Version {
			at--
		}
		if at > 0 {
			if last := &lines[at-1]; last.Version == a.Version && last.Actor == actor && last.Action == "" && a.Action != acts.Note && a.Action != acts.Refund {
				last.Action, last.Note = a.Action, a.Text
				continue
			}
		}
		line := statusChange{Version: a.Version, Action: a.Action, Note: a.Text, Actor: actor, At: orderevent.Time(a.At)}
		if at > 0 {
			line.Status = lines[at-1].Status
		}
		lines = slices.Insert(lines, at, line)
	}
	return lines
}
