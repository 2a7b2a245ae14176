package payment

import (
	"context"
	"errors"
	"fmt"

	"stampede/payment/chargeback"
	"stampede/payment/internal/paymentdb"
	"stampede/payment/refund"
	"stampede/payment/statement"
	"stampede/platform/watch/proof"
)

// maxViolations bounds what one statement reports: a longer list would go
// unread, and the first hundred show what is wrong.
const maxViolations = 100

// Checks proves the money (I4, I5). Two of them compare the ledger with the orders in
// one statement, which reads order's table: two reads would see different
// moments, and a payment between them would look like a violation.
func (s *Service) Checks() []proof.Check {
	return []proof.Check{
		{ID: "I4", Name: "captures less refunds are what paid orders say, one ledger row per transaction", Run: func(ctx context.Context) ([]proof.Violation, error) { return checkMoney(ctx, s.deps.DB) }},
		{ID: "I4", Name: "past days are compared with the providers' statements", Run: func(ctx context.Context) ([]proof.Violation, error) {
			return statement.Check(ctx, s.deps.DB, maxViolations, free, refund.ByHand)
		}},
		{ID: "I5", Name: "money on an order that is not paid goes back in time", Run: func(ctx context.Context) ([]proof.Violation, error) { return s.checkReturned(ctx, s.deps.DB) }},
	}
}

// checkMoney is I4. Money that has to be refunded counts as gone from the moment
// its refund is requested, which for an automatic one is the transaction of the
// capture; I5 checks that the refund happens. Nothing is in flight here: money, order and
// refund change in one transaction.
func checkMoney(ctx context.Context, db paymentdb.DBTX) (all []proof.Violation, err error) {
	q := paymentdb.New(db)
	orders, err1 := q.OrdersThatDiffer(ctx, maxViolations)
	captures, err2 := q.CapturesThatDiffer(ctx, maxViolations)
	refunds, err3 := q.RefundsThatDiffer(ctx, maxViolations)
	beyond, err4 := q.RefundsBeyondCaptures(ctx, maxViolations)
	strangers, err5 := q.OrdersNamingOtherMoney(ctx, maxViolations)
	covered, err6 := q.RefundsBeyondChargebacks(ctx, maxViolations)
	all, err7 := chargeback.Check(ctx, db, providerTakes, maxViolations)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		return nil, fmt.Errorf("payment: check: %w", err)
	}
	for _, no := range strangers {
		all = append(all, proof.Violation{Subject: "order " + no.String(), Detail: "the payment that its row names is not the capture that paid it"})
	}
	for _, o := range orders {
		all = append(all, proof.Violation{Subject: "order " + o.OrderNo.String(), Detail: fmt.Sprintf(
			"the order says %s, the ledger has %s, of which %s is to be refunded", money(o.Owed, o.Currency), money(o.Net, o.Currency), money(o.Back, o.Currency))})
	}
	for _, c := range captures {
		detail := "its ledger row names another provider or order"
		switch {
		case c.NotCaptured:
			detail = "the ledger has a capture for it, but it is not captured"
		case c.NotInLedger:
			detail = "it is captured, but the ledger has no capture for it"
		}
		all = append(all, proof.Violation{Subject: "payment " + c.PaymentNo.String(), Detail: detail})
	}
	for _, r := range refunds {
		all = append(all, proof.Violation{Subject: "refund " + r.RefundNo.String(), Detail: fmt.Sprintf(
			"%d ledger rows of %s for a succeeded refund of %s", r.LedgerRows, money(r.Moved, r.Currency), money(r.Says, r.Currency))})
	}
	for _, r := range beyond {
		all = append(all, proof.Violation{Subject: "payment " + r.PaymentNo.String(), Detail: fmt.Sprintf(
			"%s is to be refunded of %s that capture %s brought", money(r.Back, r.Currency), money(r.Captured, r.Currency), r.CaptureTxn)})
	}
	for _, r := range covered {
		all = append(all, proof.Violation{Subject: "payment " + r.PaymentNo.String(), Detail: fmt.Sprintf(
			"refunds of %s ended by chargebacks, which took %s", money(r.Ended, r.Currency), money(r.Taken, r.Currency))})
	}
	return all, nil
}

// checkReturned is I5. Money that waits for its refund is in flight until
// inFlight has passed, or providerTakes once the provider is at it; a failed refund is a violation until an operator has retried
// it or settled it by hand. An order changes in the transaction of its refund, so
// there the two never differ.
func (s *Service) checkReturned(ctx context.Context, db paymentdb.DBTX) (all []proof.Violation, err error) {
	q := paymentdb.New(db)
	refunds, err1 := q.RefundsNotBack(ctx, paymentdb.RefundsNotBackParams{ProviderTakes: providerTakes, InFlight: inFlight, AtMost: maxViolations})
	captures, err2 := q.CapturesNotPromisedBack(ctx, paymentdb.CapturesNotPromisedBackParams{InFlight: inFlight, AtMost: maxViolations})
	orders, err3 := q.OrdersBehindTheirRefunds(ctx, maxViolations)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("payment: check: %w", err)
	}
	for _, r := range refunds {
		all = append(all, proof.Violation{Subject: "refund " + r.RefundNo.String(), Detail: fmt.Sprintf(
			"%s has been %s for %d s and is not back with the shopper: %s", money(r.Amount, r.Currency), r.Status, r.Seconds, r.LastError)})
	}
	for _, c := range captures {
		all = append(all, proof.Violation{Subject: "order " + c.OrderNo.String(), Detail: fmt.Sprintf(
			"capture %s of %s lies on an order that is %s, and no refund was requested", c.ProviderTxn, money(c.Amount, c.Currency), c.Status)})
	}
	for _, o := range orders {
		all = append(all, proof.Violation{Subject: "order " + o.OrderNo.String(), Detail: fmt.Sprintf("it is %s, and its refunds say %s", o.Status, o.ByRefunds)})
	}
	return all, nil
}
