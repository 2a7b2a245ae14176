package payment

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"stampede/payment/chargeback"
	"stampede/payment/internal/paymentdb"
	"stampede/payment/refund"
	"stampede/payment/statement"
	"stampede/platform/base/ids"
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
			return statement.Check(ctx, s.deps.DB, cmp.Or(s.cfg.Zone, time.UTC), maxViolations, free, refund.ByHand)
		}},
		{ID: "I5", Name: "money on an order that is not paid goes back in time", Run: func(ctx context.Context) ([]proof.Violation, error) { return checkReturned(ctx, s.deps.DB) }},
	}
}

// checkMoney is I4. Money that has to be refunded counts as gone from the moment
// its refund is requested, which for an automatic one is the transaction of the
// capture; I5 checks that the refund happens. Nothing is in flight here: money, order and
// refund change in one transaction.
func checkMoney(ctx context.Context, db paymentdb.DBTX) ([]proof.Violation, error) {
	q := paymentdb.New(db)
	var f proof.Findings
	proof.Find(&f, func(no ids.ID) (string, string) {
		return "order " + no.String(), "the payment that its row names is not the capture that paid it"
	})(q.OrdersNamingOtherMoney(ctx, maxViolations))
	proof.Find(&f, func(o paymentdb.OrdersThatDifferRow) (string, string) {
		return "order " + o.OrderNo.String(), fmt.Sprintf(
			"the order says %s, the ledger has %s, of which %s is to be refunded", money(o.Owed, o.Currency), money(o.Net, o.Currency), money(o.Back, o.Currency))
	})(q.OrdersThatDiffer(ctx, maxViolations))
	proof.Find(&f, func(c paymentdb.CapturesThatDifferRow) (string, string) {
		detail := "its ledger row names another provider or order"
		switch {
		case c.NotCaptured:
			detail = "the ledger has a capture for it, but it is not captured"
		case c.NotInLedger:
			detail = "it is captured, but the ledger has no capture for it"
		}
		return "payment " + c.PaymentNo.String(), detail
	})(q.CapturesThatDiffer(ctx, maxViolations))
	proof.Find(&f, func(r paymentdb.RefundsThatDifferRow) (string, string) {
		return "refund " + r.RefundNo.String(), fmt.Sprintf(
			"%d ledger rows of %s for a succeeded refund of %s", r.LedgerRows, money(r.Moved, r.Currency), money(r.Says, r.Currency))
	})(q.RefundsThatDiffer(ctx, maxViolations))
	proof.Find(&f, func(r paymentdb.RefundsBeyondCapturesRow) (string, string) {
		return "payment " + r.PaymentNo.String(), fmt.Sprintf(
			"%s is to be refunded of %s that capture %s brought", money(r.Back, r.Currency), money(r.Captured, r.Currency), r.CaptureTxn)
	})(q.RefundsBeyondCaptures(ctx, maxViolations))
	proof.Find(&f, func(r paymentdb.RefundsBeyondChargebacksRow) (string, string) {
		return "payment " + r.PaymentNo.String(), fmt.Sprintf(
			"refunds of %s ended by chargebacks, which took %s", money(r.Ended, r.Currency), money(r.Taken, r.Currency))
	})(q.RefundsBeyondChargebacks(ctx, maxViolations))
	open, err := chargeback.Check(ctx, db, providerTakes, maxViolations)
	f.Add(open, err)
	return f.All("payment: check")
}

// checkReturned is I5. Money that waits for its refund is in flight until
// inFlight has passed, or providerTakes once the provider is at it; a failed refund is a violation until an operator has retried
// it or settled it by hand. An order changes in the transaction of its refund, so
// there the two never differ.
func checkReturned(ctx context.Context, db paymentdb.DBTX) ([]proof.Violation, error) {
	q := paymentdb.New(db)
	var f proof.Findings
	proof.Find(&f, func(r paymentdb.RefundsNotBackRow) (string, string) {
		return "refund " + r.RefundNo.String(), fmt.Sprintf(
			"%s has been %s for %d s and is not back with the shopper: %s", money(r.Amount, r.Currency), r.Status, r.Seconds, r.LastError)
	})(q.RefundsNotBack(ctx, paymentdb.RefundsNotBackParams{ProviderTakes: providerTakes, InFlight: inFlight, AtMost: maxViolations}))
	proof.Find(&f, func(c paymentdb.CapturesNotPromisedBackRow) (string, string) {
		return "order " + c.OrderNo.String(), fmt.Sprintf(
			"capture %s of %s lies on an order that is %s, and no refund was requested", c.ProviderTxn, money(c.Amount, c.Currency), c.Status)
	})(q.CapturesNotPromisedBack(ctx, paymentdb.CapturesNotPromisedBackParams{InFlight: inFlight, AtMost: maxViolations}))
	proof.Find(&f, func(o paymentdb.OrdersBehindTheirRefundsRow) (string, string) {
		return "order " + o.OrderNo.String(), fmt.Sprintf("it is %s, and its refunds say %s", o.Status, o.ByRefunds)
	})(q.OrdersBehindTheirRefunds(ctx, maxViolations))
	return f.All("payment: check")
}
