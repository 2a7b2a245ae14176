package stripe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	api "github.com/stripe/stripe-go/v84"

	"stampede/payment/provider"
	"stampede/platform/base/ids"
)

// Refund implements provider.Provider. Stripe forgets an idempotency key after a day, so
// the refund is looked for before it is made.
func (c *Client) Refund(ctx context.Context, r provider.Return) (provider.RefundStatus, error) {
	out, err := c.refund(ctx, r)
	if err != nil {
		return provider.RefundStatus{}, fmt.Errorf("stripe: refund: %w", said(err))
	}
	return c.refunded(out, c.cfg.Account, time.Unix(out.Created, 0))
}

func (c *Client) refund(ctx context.Context, r provider.Return) (*api.Refund, error) {
	ask := &api.RefundListParams{PaymentIntent: &r.Transaction}
	ask.Limit = new(int64(page))
	for made, err := range c.api.V1Refunds.List(ctx, ask) {
		if err != nil {
			return nil, err
		}
		if made.Metadata[MetaRefund] == r.RefundNo.String() && made.Metadata[MetaPayment] == r.Payment.No.String() {
			return made, nil
		}
	}
	of, err := c.api.V1PaymentIntents.Retrieve(ctx, r.Transaction, nil)
	if err != nil {
		return nil, err
	}
	if of.Metadata[MetaPayment] != r.Payment.No.String() {
		return nil, fmt.Errorf("%w: %s is the capture of another payment", provider.ErrRefused, r.Transaction)
	}
	units, err := Units(r.Amount, r.Currency)
	if err != nil {
		return nil, err
	}
	create := &api.RefundCreateParams{
		PaymentIntent: &r.Transaction, Amount: &units, Reason: new(string(api.RefundReasonRequestedByCustomer)),
		Metadata: map[string]string{MetaPayment: r.Payment.No.String(), MetaRefund: r.RefundNo.String(), "reason": r.Code},
	}
	no := r.RefundNo.String()
	create.SetIdempotencyKey(no)
	made, err := c.api.V1Refunds.Create(ctx, create)
	for range maxKeys {
		first := kept(err)
		if first == "" {
			break
		}
		create.SetIdempotencyKey(no + ":" + first)
		made, err = c.api.V1Refunds.Create(ctx, create)
	}
	return made, err
}

// maxKeys is how many failures of a refund are passed over: those of some two hours. At 0.3 s each they leave room within
// the ten seconds of a call. A later attempt waits until Stripe has forgotten the first key.
const maxKeys = 20

// kept is the request whose failure Stripe repeats, if time can have repaired its cause; empty for any other end.
//
// For a day Stripe answers a key as it did first, so that a refund beyond the balance would fail after a top-up too. Only
// what has failed under a key leads to the next one, whose name that failure gives. A refusal (4xx) has made no refund,
// so that two refunds cannot come of this: all attempts, of all instances, go through the same keys in the same order,
// and stop at the same one, which makes one refund however often it is sent. The result of a server's failure (5xx) is
// uncertain; type line repeats it under its key, so that it does not arrive here. Once Stripe has forgotten the first key,
// what was made under any is in the list of refunds, which each attempt reads first.
func kept(err error) string {
	e, ok := errors.AsType[*api.Error](err)
	if !ok || e.LastResponse == nil || e.LastResponse.Header.Get("Idempotent-Replayed") != "true" || errors.Is(said(err), provider.ErrRefused) {
		return ""
	}
	return e.LastResponse.Header.Get("Original-Request")
}

// refunded reads a refund of ours.
func (c *Client) refunded(r *api.Refund, merchant string, at time.Time) (provider.RefundStatus, error) {
	out := provider.RefundStatus{State: provider.Processing, Merchant: merchant, Transaction: r.ID, Currency: currency(r.Currency)}
	switch r.Status {
	case api.RefundStatusSucceeded:
		out.State, out.At = provider.Succeeded, at
	case api.RefundStatusFailed, api.RefundStatusCanceled:
		out.State = provider.Failed
	default: // pending, requires_action
	}
	var err error
	if out.RefundNo, err = ids.Parse(r.Metadata[MetaRefund]); err == nil {
		out.PaymentNo, err = ids.Parse(r.Metadata[MetaPayment])
	}
	if err == nil {
		out.Amount, err = Minor(r.Amount, out.Currency)
	}
	if err != nil {
		return provider.RefundStatus{}, fmt.Errorf("stripe: refund %s: %w", r.ID, err)
	}
	return out, nil
}

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
