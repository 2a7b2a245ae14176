package dispute

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/order/dispute/internal/disputedb"
	"stampede/order/disputeevent"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/idempotency"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

const (
	// maxDisputes bounds an order's disputes: after a few closed ones, another one needs
	// a person outside this program.
	maxDisputes = 5
	// maxTexts bounds one dispute's texts, so that a document stays below 100 KiB.
	maxTexts = 50
)

// Why a dispute cannot be opened or changed.
var (
	errNotFound = fault.Plain(fault.NotFound, fault.T("There is no such dispute.", "没有该售后。"))
	errNoOrder  = fault.Plain(fault.NotFound, fault.T("There is no order with this number.", "没有该订单号的订单。"))
	errNotPaid  = fault.New(fault.Conflict, "order-not-disputable",
		fault.T("This order cannot be disputed", "该订单当前不能申请售后"),
		fault.T("Only an order that is paid, completed, or whose refund has failed can be disputed.",
			"只有已付款、已完成或退款失败的订单可以申请售后。"),
		fault.T("Read the order: it can be disputed once it is paid.", "请查看订单：付款后方可申请售后。"))
	errAlready = fault.New(fault.Conflict, "dispute-open",
		fault.T("This order already has an open dispute", "该订单已有进行中的售后"),
		fault.T("The order has a dispute that is not closed; reply there.", "该订单有未完结的售后，请在其中回复。"),
		fault.T("Reply in the open dispute.", "请在进行中的售后中回复。"))
	errTooMany = fault.New(fault.Conflict, "dispute-limit",
		fault.T("No more disputes or messages are possible", "售后次数或留言已达上限"),
		fault.T("An order can have 5 disputes, and a dispute 50 messages. Contact the shop.",
			"每个订单最多 5 次售后，每次最多 50 条留言，请联系商家。"),
		fault.T("Contact the shop by phone or in person.", "请通过电话等其他方式联系商家。"))
	errClosed = fault.New(fault.Conflict, "dispute-closed", fault.T("This dispute is closed", "该售后已完结"),
		fault.T("A closed dispute can no longer be changed.", "已完结的售后不能再修改。"),
		fault.T("Read the dispute; the shopper may open another one.", "请查看售后结果；如有需要，顾客可重新申请。"))
)

// Refund is what the shop pays back to close a dispute.
type Refund struct {
	OrderNo ids.ID
	Amount  *orderevent.Money // nil is all that is left
	Units   string            // return or write_off; empty leaves it to the activity's rule
	Note    string            // of the operator
	By      int64             // the operator
}

// Deps are the module's dependencies; all are required.
type Deps struct {
	DB *pgxpool.Pool
	// Refund requests a refund in a transaction of its own, which ends although the client
	// has left. It holds the order's lock, runs also with the refund's number, may be run
	// again, and commits both or neither.
	Refund  func(ctx context.Context, r Refund, also func(ctx context.Context, tx pgx.Tx, refund ids.ID) error) error
	Refuses []*fault.Error // of Refund
	Wake    func()         // after an event was committed
}

// Service is disputes. Safe for concurrent use.
type Service struct{ deps Deps }

// New returns the disputes of a shop.
func New(deps Deps) *Service { return &Service{deps} }

type row = disputedb.OrdersDispute

// request is what a change is repeated by: as idempotency.Once, with the key.
type request struct {
	No   ids.ID
	Text string
	key  string
	name string
}

// change runs do on a locked dispute that is not closed, and publishes what it made of
// it, in one transaction.
func (s *Service) change(ctx context.Context, r request, subject string, do func(context.Context, pgx.Tx, row) (row, error)) (d row, err error) {
	return s.once(ctx, r, r, func(tx pgx.Tx) (row, error) { return changeIn(ctx, tx, r.No, subject, do) })
}

// once runs do in a transaction, as idempotency.Once with the request's key.
func (s *Service) once(ctx context.Context, r request, content any, do func(tx pgx.Tx) (row, error)) (d row, err error) {
	err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		d, err = idempotency.Once(ctx, tx, r.key, r.name, content, func() (row, error) { return do(tx) })
		return err
	})
	if err != nil {
		return row{}, fmt.Errorf("%s %s: %w", r.name, r.No, err)
	}
	s.deps.Wake()
	return d, nil
}

func changeIn(ctx context.Context, tx pgx.Tx, no ids.ID, subject string, do func(context.Context, pgx.Tx, row) (row, error)) (row, error) {
	d, err := lock(ctx, tx, no)
	if err != nil {
		return d, err
	}
	if d.Status == disputeevent.StatusClosed {
		return d, errClosed
	}
	if d, err = do(ctx, tx, d); err != nil {
		return d, err
	}
	return d, publish(ctx, tx, subject, d)
}

func lock(ctx context.Context, tx pgx.Tx, no ids.ID) (row, error) {
	d, err := disputedb.New(tx).LockDispute(ctx, disputedb.LockDisputeParams{DisputeNo: no, Bucket: no.Bucket()})
	if errors.Is(err, pgx.ErrNoRows) {
		return d, errNotFound
	}
	return d, err
}

// state is what the audit log keeps of a dispute before and after a change; not its
// texts, which are erased one day.
type state struct {
	OrderNo  ids.ID  `json:"order_no"`
	Status   string  `json:"status"`
	Outcome  string  `json:"outcome,omitempty"`
	RefundNo *ids.ID `json:"refund_no,omitempty"`
}

func stateOf(d row) state { return state{d.OrderNo, d.Status, d.Outcome, refundNo(d)} }

func publish(ctx context.Context, tx pgx.Tx, subject string, d row) error {
	_, err := outbox.Append(ctx, tx, subject, disputeevent.Changed{
		DisputeNo: d.DisputeNo, OrderNo: d.OrderNo, UserID: d.UserID, Status: d.Status, Outcome: d.Outcome, RefundNo: refundNo(d), Version: d.Version,
	})
	return err
}

func refundNo(d row) *ids.ID {
	if !d.RefundNo.Valid {
		return nil
	}
	no := ids.ID(d.RefundNo.Bytes)
	return &no
}

// open opens a dispute of a shopper's order, as idempotency.Once with the key.
func (s *Service) open(ctx context.Context, key string, order ids.ID, reason string) (d row, err error) {
	user := auth.From(ctx).UserID
	if reason, err = legible("reason", reason); err != nil {
		return d, err
	}
	r := request{No: order, key: key, name: "dispute.open"}
	return s.once(ctx, r, [2]string{order.String(), reason}, func(tx pgx.Tx) (row, error) {
		return s.openIn(ctx, tx, order, user, reason)
	})
}

func (s *Service) openIn(ctx context.Context, tx pgx.Tx, order ids.ID, user int64, reason string) (d row, err error) {
	q := disputedb.New(tx)
	o, err := q.OrderToDispute(ctx, disputedb.OrderToDisputeParams{OrderNo: order, Bucket: order.Bucket()})
	if errors.Is(err, pgx.ErrNoRows) || err == nil && o.UserID != user {
		return d, errNoOrder
	}
	if err != nil {
		return d, err
	}
	switch o.Status {
	case orderevent.StatusPaid, orderevent.StatusCompleted, orderevent.StatusRefundFailed:
	default:
		return d, errNotPaid.With("order_status", o.Status)
	}
	n, err := q.CountDisputes(ctx, order)
	if err != nil {
		return d, err
	}
	if n >= maxDisputes {
		return d, errTooMany
	}
	d, err = q.OpenDispute(ctx, disputedb.OpenDisputeParams{Bucket: order.Bucket(), DisputeNo: ids.NewFor(user), OrderNo: order, UserID: user, Reason: reason, Minted: minted(ctx)})
	if errors.Is(err, pgx.ErrNoRows) {
		return d, errAlready
	}
	if err != nil {
		return d, err
	}
	return d, publish(ctx, tx, disputeevent.SubjectOpened, d)
}

// minted reports whether a shopper's request came with a token that was minted for the
// shopper.
func minted(ctx context.Context) bool { return auth.From(ctx).Act != "" }

// write appends a text to a dispute.
func write(ctx context.Context, tx pgx.Tx, d row, operator *int64, text string) error {
	line, err := disputedb.New(tx).AddText(ctx, disputedb.AddTextParams{Bucket: d.Bucket, DisputeNo: d.DisputeNo, Operator: operator, Minted: operator == nil && minted(ctx), Text: text})
	if err == nil && line > maxTexts && operator == nil {
		err = errTooMany // an operator can always answer and close
	}
	return err
}

// reply is the shopper's text, which the shop has to answer.
func (s *Service) reply(ctx context.Context, key string, no ids.ID, text string) (row, error) {
	user := auth.From(ctx).UserID
	text, err := legible("text", text)
	if err != nil {
		return row{}, err
	}
	return s.change(ctx, request{no, text, key, "dispute.reply"}, disputeevent.SubjectReplied, func(ctx context.Context, tx pgx.Tx, d row) (row, error) {
		if d.UserID != user {
			return d, errNotFound
		}
		return move(ctx, tx, d, nil, text, disputeevent.StatusOpen)
	})
}

// answer is the shop's text.
func (s *Service) answer(ctx context.Context, key string, no ids.ID, text string) (row, error) {
	operator := auth.From(ctx).UserID
	text, err := legible("text", text)
	if err != nil {
		return row{}, err
	}
	return s.change(ctx, request{no, text, key, "dispute.answer"}, disputeevent.SubjectAnswered, func(ctx context.Context, tx pgx.Tx, d row) (row, error) {
		before := stateOf(d)
		d, err := move(ctx, tx, d, &operator, text, disputeevent.StatusAnswered)
		if err != nil {
			return d, err
		}
		return d, audit.Record(ctx, tx, "dispute.answer", "dispute "+no.String(), audit.Change{Before: before, After: stateOf(d)})
	})
}

func move(ctx context.Context, tx pgx.Tx, d row, operator *int64, text, status string) (row, error) {
	if err := write(ctx, tx, d, operator, text); err != nil {
		return d, err
	}
	return disputedb.New(tx).MoveDispute(ctx, disputedb.MoveDisputeParams{Status: status, DisputeNo: d.DisputeNo, Bucket: d.Bucket})
}

// end closes a dispute, with a refund or, if it is nil, without. The refund is requested in
// the transaction that closes the dispute. A dispute that this operator has closed in the
// same way is returned.
func (s *Service) end(ctx context.Context, no ids.ID, text string, refund *disputeRefund) (row, error) {
	operator := auth.From(ctx).UserID
	text, err := legible("reason", text)
	if err != nil {
		return row{}, err
	}
	was, err := s.read(ctx, no)
	if err != nil {
		return was, err
	}
	outcome, paid := disputeevent.OutcomeNoRefund, pgtype.UUID{}
	closing := func(ctx context.Context, tx pgx.Tx, d row) (row, error) {
		before := stateOf(d)
		if err := write(ctx, tx, d, &operator, text); err != nil {
			return d, err
		}
		d, err := disputedb.New(tx).CloseDispute(ctx, disputedb.CloseDisputeParams{
			Outcome: outcome, RefundNo: paid, Operator: &operator, DisputeNo: d.DisputeNo, Bucket: d.Bucket,
		})
		if err != nil {
			return d, err
		}
		return d, audit.Record(ctx, tx, "dispute.close", "dispute "+no.String(), audit.Change{Before: before, After: stateOf(d)})
	}
	var d row
	if refund == nil {
		d, err = s.change(ctx, request{No: no, name: "dispute.close"}, disputeevent.SubjectClosed, closing)
	} else {
		outcome = disputeevent.OutcomeRefund
		asked := Refund{OrderNo: was.OrderNo, Amount: refund.Amount, Units: refund.Units, Note: text, By: operator}
		err = s.deps.Refund(ctx, asked, func(ctx context.Context, tx pgx.Tx, made ids.ID) (err error) {
			paid = pgtype.UUID{Bytes: made, Valid: true}
			d, err = changeIn(ctx, tx, no, disputeevent.SubjectClosed, closing)
			return err
		})
	}
	if err == nil {
		s.deps.Wake() // again, if change did
		return d, nil
	}
	// Another request may have closed it, and have left nothing to refund.
	if was, readErr := s.read(ctx, no); readErr == nil && was.Status == disputeevent.StatusClosed {
		if was.Outcome == outcome && was.ClosedBy != nil && *was.ClosedBy == operator {
			return was, nil
		}
		err = errClosed
	}
	return d, err
}

func (s *Service) read(ctx context.Context, no ids.ID) (row, error) {
	d, err := disputedb.New(s.deps.DB).Dispute(ctx, disputedb.DisputeParams{DisputeNo: no, Bucket: no.Bucket()})
	if errors.Is(err, pgx.ErrNoRows) {
		return d, errNotFound
	}
	if err != nil {
		return d, fmt.Errorf("dispute: read %s: %w", no, err)
	}
	return d, nil
}
