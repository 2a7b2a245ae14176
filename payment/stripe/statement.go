package stripe

import (
	"context"
	"fmt"
	"time"

	api "github.com/stripe/stripe-go/v84"

	"stampede/payment/provider"
	"stampede/platform/base/ids"
)

// Statement implements provider.Provider: the balance transactions of charges, refunds
// and disputes that belong to payments of ours, also refunds that were made in the dashboard.
func (c *Client) Statement(ctx context.Context, d provider.Day) provider.Lines {
	return provider.LinesOf(func(pass func(provider.Line) bool) error {
		if time.Now().Before(d.To) {
			return provider.ErrNotReady
		}
		ask := &api.BalanceTransactionListParams{CreatedRange: &api.RangeQueryParams{GreaterThanOrEqual: d.From.Unix(), LesserThan: d.To.Unix()}}
		ask.Limit = new(int64(page))
		ask.AddExpand("data.source.payment_intent")
		for t, err := range c.api.V1BalanceTransactions.List(ctx, ask) {
			var l provider.Line
			ours := false
			if err == nil {
				l, ours, err = lineOf(t)
			}
			if err != nil {
				return fmt.Errorf("stripe: statement: %w", said(err))
			}
			if ours && !pass(l) {
				return nil
			}
		}
		return nil
	})
}

// lineOf reads a balance transaction; ours is false for what is no payment of ours. The
// amount is that of the charge or refund: the balance may be in another currency.
func lineOf(t *api.BalanceTransaction) (l provider.Line, ours bool, err error) {
	if t.Source == nil {
		return l, false, nil
	}
	var of *api.PaymentIntent
	var money api.Currency
	refundNo := ""
	switch t.Type {
	case api.BalanceTransactionTypeCharge, api.BalanceTransactionTypePayment:
		ch := t.Source.Charge
		if ch == nil || ch.PaymentIntent == nil {
			return l, false, nil
		}
		of, money = ch.PaymentIntent, ch.Currency
		l = provider.Line{Kind: provider.Paid, Transaction: of.ID, Amount: ch.Amount}
	case api.BalanceTransactionTypeRefund, api.BalanceTransactionTypePaymentRefund, api.BalanceTransactionTypeRefundFailure:
		r := t.Source.Refund
		if r == nil || r.PaymentIntent == nil {
			return l, false, nil
		}
		of, money, refundNo = r.PaymentIntent, r.Currency, r.Metadata[MetaRefund]
		l = provider.Line{Kind: provider.PaidBack, Transaction: r.ID, Amount: r.Amount}
		if t.Type == api.BalanceTransactionTypeRefundFailure {
			l.Amount = -l.Amount
		}
	case api.BalanceTransactionTypeAdjustment:
		d := t.Source.Dispute
		if d == nil || d.PaymentIntent == nil {
			return l, false, nil
		}
		of, money = d.PaymentIntent, d.Currency
		l = provider.Line{Kind: provider.ChargedBack, Transaction: d.ID, Amount: d.Amount}
		if t.Amount > 0 {
			l.Amount = -l.Amount
		}
	default: // payouts, fees
		return l, false, nil
	}
	if of.Metadata[MetaPayment] == "" {
		return l, false, nil
	}
	l.Currency, l.At = currency(money), time.Unix(t.Created, 0)
	if l.Amount, err = Minor(l.Amount, l.Currency); err != nil {
		return l, true, err
	}
	l.PaymentNo, err = ids.Parse(of.Metadata[MetaPayment])
	if err == nil && refundNo != "" {
		l.RefundNo, err = ids.Parse(refundNo)
	}
	return l, true, err
}
