package payment

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/order"
	"stampede/order/orderevent"
	"stampede/payment/internal/paymentdb"
	"stampede/payment/refund"
	"stampede/platform/base/ids"
)

// Begun reports whether a payment of the order was ever begun, in order's
// transaction.
func (s *Service) Begun(ctx context.Context, tx pgx.Tx, no ids.ID) (bool, error) {
	begun, err := s.q.WithTx(tx).PaymentsOfOrder(ctx, paymentdb.PaymentsOfOrderParams{OrderNo: no, Bucket: no.Bucket()})
	if err != nil {
		return false, fmt.Errorf("payment: look for payments of %s: %w", no, err)
	}
	return len(begun) > 0, nil
}

// PaymentsOf returns an order's payments with their refunds, oldest first, for
// the operator's order page.
func (s *Service) PaymentsOf(ctx context.Context, no ids.ID) ([]order.PaymentView, error) {
	payments, err := s.q.PaymentsOfOrder(ctx, paymentdb.PaymentsOfOrderParams{OrderNo: no, Bucket: no.Bucket()})
	if err != nil {
		return nil, fmt.Errorf("payment: read payments of %s: %w", no, err)
	}
	refunds, err := s.q.RefundsOfOrder(ctx, paymentdb.RefundsOfOrderParams{OrderNo: no, Bucket: no.Bucket()})
	if err != nil {
		return nil, fmt.Errorf("payment: read refunds of %s: %w", no, err)
	}
	charged, err := s.chargebacks.Of(ctx, no)
	if err != nil {
		return nil, err
	}
	of := make(map[ids.ID][]order.RefundView, len(refunds))
	for _, r := range refunds {
		of[r.PaymentNo] = append(of[r.PaymentNo], refund.Brief(r))
	}
	views := make([]order.PaymentView, len(payments))
	for i, p := range payments {
		views[i] = order.PaymentView{
			PaymentNo: p.PaymentNo, Provider: p.Provider, Method: string(p.Method), Status: p.Status, Amount: orderevent.Money{Amount: p.Amount, Currency: p.Currency},
			ProviderTxn: p.ProviderTxn, CreatedAt: orderevent.Time(p.CreatedAt), UpdatedAt: orderevent.Time(p.UpdatedAt), Refunds: of[p.PaymentNo], Chargebacks: charged[p.PaymentNo],
		}
	}
	return views, nil
}

// OrdersOfPayment returns the order of a payment, or none, for the operators' search.
func (s *Service) OrdersOfPayment(ctx context.Context, paymentNo ids.ID) ([]ids.ID, error) {
	p, err := s.q.Payment(ctx, paymentdb.PaymentParams{PaymentNo: paymentNo, Bucket: paymentNo.Bucket()})
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
func (s *Service) OrdersOfTransaction(ctx context.Context, txn string) ([]ids.ID, error) {
	nos, err := s.q.OrdersOfTransaction(ctx, txn)
	if err != nil {
		return nil, fmt.Errorf("payment: look for a transaction: %w", err)
	}
	return nos, nil
}
