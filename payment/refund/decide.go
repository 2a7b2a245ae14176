package refund

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/order"
	"stampede/order/orderevent"
	"stampede/payment/internal/paymentdb"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/idempotency"
	"stampede/platform/watch/audit"
)

// Why an operator's decision about a refund does not apply.
var (
	errNoRefund = fault.Plain(fault.NotFound, fault.T("There is no refund with this number.", "没有该编号的退款。"))
	errNotThis  = fault.New(fault.Conflict, "refund-not-waiting",
		fault.T("The refund’s status does not allow this", "退款状态已变化，无法执行该操作"),
		fault.T("Only a refund that awaits approval can be approved or rejected, and only a failed one retried, "+
			"settled by hand or ended by a chargeback. Read it again.",
			"只有待审批的退款可以批准或拒绝，只有失败的退款可以重试、线下处理或由拒付抵偿。请刷新查看。"),
		fault.T("Read the refund again and act on its refund_status.", "请刷新退款详情，按最新状态处理。"))
	errNotLost = fault.New(fault.Conflict, "chargeback-not-lost",
		fault.T("No lost chargeback covers this refund", "该退款没有对应的已败诉拒付"),
		fault.T("A failed refund ends by a chargeback only once the shop has lost one of the same payment, over at "+
			"least as much.",
			"只有同一笔支付的拒付已败诉、且金额不低于该退款时，失败的退款才能由拒付抵偿。"),
		fault.T("Read the order’s chargebacks and answer an open one. If there is none, retry the refund or pay the "+
			"money back another way.",
			"请查看订单的拒付记录：进行中的请先应诉；没有拒付的请重试退款或线下退款。"))
	errSecond = fault.New(fault.Forbidden, "refund-second-operator",
		fault.T("Another operator must approve", "须由另一位运营人员审批"),
		fault.T("A refund is approved by an operator other than the one who asked for it, or whose API key did.", "退款须由申请人以外的运营人员审批；由 API 密钥申请的，创建该密钥的管理员不能审批。"),
		fault.T("Ask another operator to approve it.", "请由另一位运营人员审批。"))
)

// decision is one operator's action on a refund; do changes its row and returns it.
type decision struct {
	name string // in the audit log: "approve"
	no   ids.ID
	key  string // Idempotency-Key
	with any    // the rest of the request
	// first runs before any row is locked; see move.
	first func(q *paymentdb.Queries, r paymentdb.PaymentsRefund) error
	do    func(c *change, r paymentdb.PaymentsRefund) (paymentdb.PaymentsRefund, error)
	after func(tx pgx.Tx, r paymentdb.PaymentsRefund, whole bool) error
}

// decide performs an operator's action in one transaction with its audit record.
func (s *Service) decide(ctx context.Context, d decision) (out AdminRefund, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	row, err := s.q.Refund(ctx, paymentdb.RefundParams{RefundNo: d.no, Bucket: d.no.Bucket()})
	if errors.Is(err, pgx.ErrNoRows) {
		return out, errNoRefund
	}
	if err != nil {
		return out, fmt.Errorf("refund: read %s: %w", d.no, err)
	}
	acted := false
	err = s.move(ctx, row.OrderNo, operatorActor(auth.From(ctx).UserID), func(_ pgx.Tx, q *paymentdb.Queries) (bool, error) {
		if d.first == nil {
			return true, nil
		}
		return true, d.first(q, row)
	}, func(c *change) error {
		acted = false
		out, err = idempotency.Once(ctx, c.tx, d.key, "refund."+d.name, []any{d.no, d.with}, func() (none AdminRefund, err error) {
			changed, err := d.do(c, row)
			if errors.Is(err, pgx.ErrNoRows) {
				err = errNotThis.With("refund_status", row.Status)
			}
			if err != nil {
				return none, err
			}
			acted = true
			view := viewOf(changed)
			return view, audit.Record(ctx, c.tx, "refund."+d.name, subject(d.no), audit.Change{Before: audited(row), After: audited(changed)})
		})
		return err
	}, func(tx pgx.Tx, whole bool) error {
		if d.after == nil || !acted {
			return nil
		}
		return d.after(tx, row, whole)
	})
	if err != nil {
		return AdminRefund{}, fmt.Errorf("refund: %s %s: %w", d.name, d.no, err)
	}
	s.wake(out)
	return out, nil
}

// approve has a refund that awaits approval requested from its provider.
func (s *Service) approve(ctx context.Context, no ids.ID, key string) (AdminRefund, error) {
	return s.decide(ctx, decision{name: "approve", no: no, key: key, do: func(c *change, r paymentdb.PaymentsRefund) (paymentdb.PaymentsRefund, error) {
		if err := s.second(ctx, r.RequestedBy); err != nil {
			return r, err
		}
		if err := refuseChargedBack(ctx, c.q, r); err != nil {
			return r, err
		}
		at, sent, err := order.SentAt(ctx, c.tx, r.OrderNo)
		if err != nil {
			return r, err
		}
		units := r.Units
		if sent && at.After(r.CreatedAt) || c.order.Status == orderevent.StatusCompleted && c.order.UpdatedAt.After(r.CreatedAt) {
			units = UnitsWriteOff // the goods left the shop while the refund waited
		}
		return c.decided(ctx, r, requested, units)
	}})
}

// second refuses the operator who asked for a refund, and the admin whose API key did:
// only its maker has seen the key.
func (s *Service) second(ctx context.Context, requestedBy int64) error {
	operator := auth.From(ctx).UserID
	if requestedBy == operator {
		return errSecond
	}
	if s.deps.MakerOf == nil {
		return nil
	}
	maker, err := s.deps.MakerOf(ctx, requestedBy)
	if err == nil && maker == operator {
		return errSecond
	}
	return err
}

// reject ends a refund that awaits approval.
func (s *Service) reject(ctx context.Context, no ids.ID, key string) (AdminRefund, error) {
	return s.decide(ctx, decision{name: "reject", no: no, key: key, do: func(c *change, r paymentdb.PaymentsRefund) (paymentdb.PaymentsRefund, error) {
		return c.decided(ctx, r, rejected, r.Units)
	}})
}

func (c *change) decided(ctx context.Context, r paymentdb.PaymentsRefund, status, units string) (paymentdb.PaymentsRefund, error) {
	return c.q.DecideRefund(ctx, paymentdb.DecideRefundParams{
		Status: status, Units: units, DecidedBy: auth.From(ctx).UserID, RefundNo: r.RefundNo, Bucket: r.Bucket,
	})
}

// retry replaces a failed refund by a new one of the same money.
func (s *Service) retry(ctx context.Context, no ids.ID, key string) (AdminRefund, error) {
	return s.decide(ctx, decision{name: "retry", no: no, key: key, do: func(c *change, r paymentdb.PaymentsRefund) (paymentdb.PaymentsRefund, error) {
		if err := refuseChargedBack(ctx, c.q, r); err != nil {
			return r, err
		}
		b, err := readBook(ctx, c.q, c.order)
		if err != nil {
			return r, err
		}
		old, err := c.q.ReplaceRefund(ctx, paymentdb.ReplaceRefundParams{RefundNo: no, Bucket: no.Bucket()})
		if err != nil {
			return old, err
		}
		units := old.Units
		if units != "" { // of one that was asked for: what was decided last about the order's units stays decided
			units = b.units
		}
		return c.q.AskRefund(ctx, paymentdb.AskRefundParams{
			Bucket: old.Bucket, RefundNo: ids.NewFor(old.UserID), PaymentNo: old.PaymentNo, OrderNo: old.OrderNo, UserID: old.UserID,
			Provider: old.Provider, CaptureTxn: old.CaptureTxn, Amount: old.Amount, Currency: old.Currency, Reason: old.Reason, Status: requested,
			Note: old.Note, RequestedBy: old.RequestedBy, DecidedBy: old.DecidedBy, Units: units,
		})
	}})
}

// settleByHand ends a failed refund whose money an operator has paid back in another
// way, with the number on the receipt.
func (s *Service) settleByHand(ctx context.Context, no ids.ID, key, receipt string) (AdminRefund, error) {
	return s.decide(ctx, decision{
		name: "settle-by-hand", no: no, key: key, with: receipt,
		first: func(q *paymentdb.Queries, r paymentdb.PaymentsRefund) error {
			_, err := s.record(ctx, q, ByHand, kindRefund, no.String(), r)
			return err
		},
		do: func(c *change, _ paymentdb.PaymentsRefund) (paymentdb.PaymentsRefund, error) {
			return c.q.SettleRefundByHand(ctx, paymentdb.SettleRefundByHandParams{
				Receipt: receipt, SettledBy: auth.From(ctx).UserID, RefundNo: no, Bucket: no.Bucket(),
			})
		},
		after: func(tx pgx.Tx, r paymentdb.PaymentsRefund, whole bool) error { return announce(ctx, tx, r, whole) },
	})
}

// endByChargeback ends a failed refund whose money the shopper's bank has taken for good.
func (s *Service) endByChargeback(ctx context.Context, no ids.ID, key string) (AdminRefund, error) {
	return s.decide(ctx, decision{name: "end-by-chargeback", no: no, key: key, do: func(c *change, r paymentdb.PaymentsRefund) (paymentdb.PaymentsRefund, error) {
		ended, err := c.q.EndRefundByChargeback(ctx, paymentdb.EndRefundByChargebackParams{RefundNo: no, Bucket: no.Bucket()})
		if err != nil {
			return r, err
		}
		back, err := c.q.ChargedBack(ctx, paymentdb.ChargedBackParams{Provider: r.Provider, CaptureTxn: r.CaptureTxn, Bucket: r.Bucket})
		if err == nil && back.Lost < 0 {
			err = errNotLost
		}
		return ended, err
	}})
}
