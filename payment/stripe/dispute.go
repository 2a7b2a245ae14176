package stripe

import (
	"errors"
	"strings"
	"time"

	api "github.com/stripe/stripe-go/v84"

	"stampede/payment/provider"
)

// dashboard is where an operator answers a dispute.
const dashboard = "https://dashboard.stripe.com/"

// disputed reads a dispute, which is Stripe's word for a chargeback. What moved is in its
// list and, should that lag behind, in the event's name.
func (c *Client) disputed(d *api.Dispute, event api.EventType, merchant string) (provider.Chargeback, error) {
	amount, err := Minor(d.Amount, currency(d.Currency))
	out := provider.Chargeback{
		Merchant: merchant, No: d.ID, Capture: d.PaymentIntent.ID, Amount: amount, Currency: currency(d.Currency), Reason: string(d.Reason),
		State: provider.ChargebackOpen, Withdrawn: event == api.EventTypeChargeDisputeFundsWithdrawn, Reinstated: event == api.EventTypeChargeDisputeFundsReinstated,
		Link: dashboard + "payments/" + d.PaymentIntent.ID,
	}
	if !d.Livemode {
		out.Link = dashboard + "test/payments/" + d.PaymentIntent.ID
	}
	switch d.Status {
	case api.DisputeStatusWarningNeedsResponse, api.DisputeStatusWarningUnderReview:
		out.State = provider.ChargebackInquiry
	case api.DisputeStatusWon:
		out.State = provider.ChargebackWon
	case api.DisputeStatusLost:
		out.State = provider.ChargebackLost
	case api.DisputeStatusWarningClosed, api.DisputeStatusPrevented:
		out.State = provider.ChargebackClosed
	default: // needs_response, under_review
	}
	for _, t := range d.BalanceTransactions {
		out.Withdrawn, out.Reinstated = out.Withdrawn || t.Amount < 0, out.Reinstated || t.Amount > 0
	}
	// What came back was taken before.
	out.Withdrawn = out.Withdrawn || out.Reinstated
	if d.EvidenceDetails != nil && d.EvidenceDetails.DueBy > 0 {
		out.RespondBy = time.Unix(d.EvidenceDetails.DueBy, 0)
	}
	if d.ID == "" || d.Amount <= 0 {
		return out, errors.New("stripe: a dispute without number or amount")
	}
	out.Reason = strings.ReplaceAll(out.Reason, "_", " ")
	return out, err
}
