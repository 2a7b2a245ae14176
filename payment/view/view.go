// Package view shows an order's payments, with their refunds and chargebacks, to what reads
// or works on an order and its money together.
package view

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/order/orderevent"
	"stampede/payment/chargeback"
	"stampede/payment/internal/paymentdb"
	"stampede/payment/refund"
	"stampede/platform/base/ids"
)

// PaymentView is an operator's view of one of an order's payments.
type PaymentView struct {
	PaymentNo   ids.ID                      `json:"payment_no" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f61"`
	Provider    string                      `json:"provider" example:"sandbox"`
	Method      string                      `json:"method,omitempty" doc:"The provider's way to pay" example:"page"`
	Status      string                      `json:"status" enum:"created,captured,closed" doc:"created: open at the provider; captured: paid; closed: it cannot be paid any more"`
	Amount      orderevent.Money            `json:"amount"`
	ProviderTxn string                      `json:"provider_txn,omitempty" doc:"The provider's own number, once captured" example:"4200001234202611110123456789"`
	CreatedAt   string                      `json:"created_at" format:"date-time"`
	UpdatedAt   string                      `json:"updated_at" format:"date-time"`
	Refunds     []refund.RefundView         `json:"refunds,omitempty" nullable:"false" doc:"Left out where there is none"`
	Chargebacks []chargeback.ChargebackView `json:"chargebacks,omitempty" nullable:"false" doc:"Left out where there is none"`
}

// Reader reads payments. Safe for concurrent use.
type Reader struct {
	q           *paymentdb.Queries
	chargebacks *chargeback.Service
}

// NewReader returns a reader of the payments in db.
func NewReader(db *pgxpool.Pool, chargebacks *chargeback.Service) *Reader {
	return &Reader{paymentdb.New(db), chargebacks}
}

// Begun reports whether a payment of the order was ever begun, in order's
// transaction.
func (r *Reader) Begun(ctx context.Context, tx pgx.Tx, no ids.ID) (bool, error) {
	begun, err := r.q.WithTx(tx).PaymentsOfOrder(ctx, paymentdb.PaymentsOfOrderParams{OrderNo: no, Bucket: no.Bucket()})
	if err != nil {
		return false, fmt.Errorf("payment: look for payments of %s: %w", no, err)
	}
	return len(begun) > 0, nil
}

// Of returns an order's payments with their refunds, oldest first.
func (r *Reader) Of(ctx context.Context, no ids.ID) ([]PaymentView, error) {
	payments, err := r.q.PaymentsOfOrder(ctx, paymentdb.PaymentsOfOrderParams{OrderNo: no, Bucket: no.Bucket()})
	if err != nil {
		return nil, fmt.Errorf("payment: read payments of %s: %w", no, err)
	}
	refunds, err := r.q.RefundsOfOrder(ctx, paymentdb.RefundsOfOrderParams{OrderNo: no, Bucket: no.Bucket()})
	if err != nil {
		return nil, fmt.Errorf("payment: read refunds of %s: %w", no, err)
	}
	charged, err := r.chargebacks.Of(ctx, no)
	if err != nil {
		return nil, err
	}
	of := make(map[ids.ID][]refund.RefundView, len(refunds))
	for _, row := range refunds {
		of[row.PaymentNo] = append(of[row.PaymentNo], refund.Brief(row))
	}
	views := make([]PaymentView, len(payments))
	for i, p := range payments {
		views[i] = PaymentView{
			PaymentNo: p.PaymentNo, Provider: p.Provider, Method: string(p.Method), Status: p.Status, Amount: orderevent.Money{Amount: p.Amount, Currency: p.Currency},
			ProviderTxn: p.ProviderTxn, CreatedAt: orderevent.Time(p.CreatedAt), UpdatedAt: orderevent.Time(p.UpdatedAt), Refunds: of[p.PaymentNo], Chargebacks: charged[p.PaymentNo],
		}
	}
	return views, nil
}

// OrdersOfPayment returns the order of a payment, or none, for the operators' search.
func (r *Reader) OrdersOfPayment(ctx context.Context, paymentNo ids.ID) ([]ids.ID, error) {
	p, err := r.q.Payment(ctx, paymentdb.PaymentParams{PaymentNo: paymentNo, Bucket: paymentNo.Bucket()})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("payment: read %s: %w", paymentNo, err)
	}
	return []ids.ID{p.OrderNo}, nil
}

// OrdersOfTransaction returns the orders that money moved for under a provider's
// number.
func (r *Reader) OrdersOfTransaction(ctx context.Context, txn string) ([]ids.ID, error) {
	nos, err := r.q.OrdersOfTransaction(ctx, txn)
	if err != nil {
		return nil, fmt.Errorf("payment: look for a transaction: %w", err)
	}
	return nos, nil
}

// RefundsOf returns what went back of the orders' money, and of which of them more may: a
// refund waits for a decision, a provider or an operator. Orders without refunds are in neither.
func (r *Reader) RefundsOf(ctx context.Context, nos []ids.ID) (refunded map[ids.ID]int64, open map[ids.ID]bool, err error) {
	return refundsOf(ctx, r.q, nos)
}

// RefundOpen reports whether a refund of the order is open, in order's transaction.
func (r *Reader) RefundOpen(ctx context.Context, tx pgx.Tx, no ids.ID) (bool, error) {
	_, open, err := refundsOf(ctx, r.q.WithTx(tx), []ids.ID{no})
	return open[no], err
}

// Returned is how much money refunds have returned of what paid an order, as tx sees it.
func (r *Reader) Returned(ctx context.Context, tx pgx.Tx, no ids.ID) (int64, error) {
	refunded, _, err := refundsOf(ctx, r.q.WithTx(tx), []ids.ID{no})
	return refunded[no], err
}

func refundsOf(ctx context.Context, q *paymentdb.Queries, nos []ids.ID) (refunded map[ids.ID]int64, open map[ids.ID]bool, err error) {
	rows, err := q.RefundsOfOrders(ctx, paymentdb.RefundsOfOrdersParams{OrderNos: nos, Buckets: ids.BucketsOf(nos)})
	if err != nil {
		return nil, nil, fmt.Errorf("payment: read refunds of %d orders: %w", len(nos), err)
	}
	refunded, open = make(map[ids.ID]int64, len(rows)), make(map[ids.ID]bool, len(rows))
	for _, row := range rows {
		refunded[row.OrderNo], open[row.OrderNo] = row.Refunded, row.Open
	}
	return refunded, open, nil
}
