package chargeback

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/order/orderevent"
	"stampede/payment/chargeback/internal/chargebackdb"
	"stampede/payment/internal/paymentdb"
	"stampede/payment/provider"
	"stampede/payment/refund"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/proof"
)

var raised = alarm.Define("chargeback", alarm.Critical,
	fault.T("A shopper's bank takes a payment back, or inquires about it. What the provider takes for it is gone unless the shop wins.",
		"顾客的银行要求撤回或调查一笔付款。除非商家申诉成功，被扣走的款项无法收回。"),
	fault.T("Answer it at the link in the detail before the date named there, with proof of delivery. Do not refund the order as well.",
		"请在详情所示日期前，通过其中的链接提交发货凭证应诉。请勿再对该订单退款。"))

// Kinds of ledger rows; a reversal has the transaction of its chargeback.
const (
	kindChargeback = "chargeback"
	kindReversal   = "chargeback_reversal"
)

// Service records chargebacks. Safe for concurrent use.
type Service struct {
	db      *pgxpool.Pool
	q       *chargebackdb.Queries
	refunds *refund.Service
}

// New returns the service; it starts nothing. A refund that ended by a chargeback is owed
// again once the bank gives the money back.
func New(db *pgxpool.Pool, refunds *refund.Service) *Service {
	return &Service{db, chargebackdb.New(db), refunds}
}

// Record applies a provider's report, in one transaction with its alarm. It fails with
// provider.ErrUnknown if the capture is not in the ledger, as for another use of the account, or
// with provider.ErrMismatch.
func (s *Service) Record(ctx context.Context, name string, c provider.Chargeback) error {
	of, err := paymentdb.New(s.db).Movement(ctx, paymentdb.MovementParams{Provider: name, Kind: string(provider.Paid), ProviderTxn: c.Capture})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = provider.ErrUnknown
	case err != nil:
	case c.Amount <= 0 || c.Currency != of.Currency: // the amount may be above the capture's, as where exchange rates moved
		err = provider.ErrMismatch
	case c.Reinstated:
		c.State = provider.ChargebackWon // also where the report's state lags behind its money
		err = s.refunds.Reopen(ctx, name, c.Capture, of.OrderNo, func(tx pgx.Tx) error { return s.record(ctx, tx, name, c, of) })
	default:
		err = pg.InTx(ctx, s.db, func(tx pgx.Tx) error { return s.record(ctx, tx, name, c, of) })
	}
	if err != nil {
		return fmt.Errorf("chargeback %s: %w", c.No, err)
	}
	return nil
}

func (s *Service) record(ctx context.Context, tx pgx.Tx, name string, c provider.Chargeback, of paymentdb.PaymentsLedger) error {
	// In one order, so that two reports at once do not wait for each other.
	for _, money := range []struct {
		kind  string
		moved bool
	}{{kindChargeback, c.Withdrawn}, {kindReversal, c.Reinstated}} {
		if !money.moved {
			continue
		}
		if _, err := paymentdb.New(tx).RecordMoney(ctx, paymentdb.RecordMoneyParams{
			Provider: name, Kind: money.kind, ProviderTxn: c.No, PaymentNo: of.PaymentNo, OrderNo: of.OrderNo, Amount: c.Amount, Currency: c.Currency,
		}); err != nil {
			return err
		}
	}
	var by *time.Time
	if !c.RespondBy.IsZero() {
		by = &c.RespondBy
	}
	changed, err := s.q.WithTx(tx).Put(ctx, chargebackdb.PutParams{
		Provider: name, ChargebackNo: c.No, PaymentNo: of.PaymentNo, OrderNo: of.OrderNo, CaptureTxn: &c.Capture, Amount: c.Amount, Currency: c.Currency,
		Reason: c.Reason, Status: string(c.State), RespondBy: by, Reinstated: c.Reinstated,
	})
	if err != nil || changed == 0 || c.State == provider.ChargebackWon || c.State == provider.ChargebackClosed {
		return err
	}
	subject := "chargeback " + c.No
	if c.State == provider.ChargebackInquiry {
		subject = "inquiry " + c.No // the chargeback that follows it is an alarm of its own, however soon it does
	}
	return raised.Raise(ctx, tx, subject, detail(of.OrderNo, c))
}

// detail is what an operator needs to answer.
func detail(no ids.ID, c provider.Chargeback) string {
	said := fmt.Sprintf("%s of order %s, reason %s, is %s", orderevent.Money{Amount: c.Amount, Currency: c.Currency}, no, c.Reason, c.State)
	if !c.RespondBy.IsZero() && answerable(string(c.State)) {
		said += ", answer by " + orderevent.Time(c.RespondBy)
	}
	if c.Link != "" {
		said += ": " + c.Link
	}
	return said
}

// answerable reports whether the shop can answer a chargeback that stands so.
func answerable(status string) bool {
	return status == string(provider.ChargebackInquiry) || status == string(provider.ChargebackOpen)
}

// ChargebackView is a chargeback of one of an order's payments.
type ChargebackView struct { //nolint:revive // the name of its schema in the API
	ChargebackNo string           `json:"chargeback_no" doc:"The provider's number" example:"dp_1SxQ2eLkdIwHu7ix"`
	Amount       orderevent.Money `json:"amount"`
	Reason       string           `json:"reason" doc:"In the provider's word" example:"fraudulent"`
	Status       string           `json:"status" enum:"inquiry,open,won,lost,closed" doc:"inquiry: the bank asks, and takes no money yet; open: the shop can still answer in the provider's console; closed: it ended before money moved"`
	Withdrawn    bool             `json:"withdrawn" doc:"The provider has taken the money from the shop, and not given it back"`
	RespondBy    string           `json:"respond_until,omitempty" format:"date-time" doc:"When the shop's answer is due"`
	CreatedAt    string           `json:"created_at" format:"date-time"`
	UpdatedAt    string           `json:"updated_at" format:"date-time"`
}

// Of returns an order's chargebacks by payment, oldest first.
func (s *Service) Of(ctx context.Context, no ids.ID) (map[ids.ID][]ChargebackView, error) {
	rows, err := s.q.OfOrder(ctx, no)
	if err != nil {
		return nil, fmt.Errorf("chargeback: read those of order %s: %w", no, err)
	}
	of := make(map[ids.ID][]ChargebackView)
	for _, r := range rows {
		v := ChargebackView{
			ChargebackNo: r.ChargebackNo, Amount: orderevent.Money{Amount: r.Amount, Currency: r.Currency}, Reason: r.Reason, Status: r.Status,
			Withdrawn: r.Withdrawn && !r.Reinstated, CreatedAt: orderevent.Time(r.CreatedAt), UpdatedAt: orderevent.Time(r.UpdatedAt),
		}
		if r.RespondBy != nil && answerable(r.Status) {
			v.RespondBy = orderevent.Time(*r.RespondBy)
		}
		of[r.PaymentNo] = append(of[r.PaymentNo], v)
	}
	return of, nil
}

// Check compares chargebacks with the ledger, a part of I4. A provider may take
// providerTakes to move what an outcome says.
func Check(ctx context.Context, db chargebackdb.DBTX, providerTakes time.Duration, atMost int32) (all []proof.Violation, err error) {
	rows, err := chargebackdb.New(db).ThatDiffer(ctx, chargebackdb.ThatDifferParams{ProviderTakes: providerTakes, AtMost: atMost})
	for _, r := range rows {
		all = append(all, proof.Violation{Subject: "chargeback " + r.ChargebackNo, Detail: fmt.Sprintf("it is %s over %s, and the ledger says that %s is withdrawn",
			r.Status, orderevent.Money{Amount: r.Amount, Currency: r.Currency}, orderevent.Money{Amount: r.Net, Currency: r.Currency})})
	}
	return all, err
}
