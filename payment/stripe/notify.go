package stripe

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	api "github.com/stripe/stripe-go/v84"
	"github.com/stripe/stripe-go/v84/webhook"

	"stampede/payment/provider"
)

// HeaderSignature carries a callback's time and signatures.
const HeaderSignature = "Stripe-Signature"

// Parse implements provider.Provider.
func (c *Client) Parse(h http.Header, body []byte) (provider.Notice, error) {
	if err := c.verify(h, body); err != nil {
		return provider.Notice{}, fmt.Errorf("%w: %w", provider.ErrBadSignature, err)
	}
	n, err := c.read(body)
	if err != nil {
		return provider.Notice{}, fmt.Errorf("%w: %w", provider.ErrUnreadable, err)
	}
	return n, nil
}

// verify tries the endpoint's secrets.
func (c *Client) verify(h http.Header, body []byte) (err error) {
	for _, secret := range c.cfg.Secrets {
		if err = webhook.ValidatePayloadWithTolerance(body, h.Get(HeaderSignature), secret, webhook.DefaultTolerance); err == nil {
			return nil
		}
	}
	return err
}

// read decodes an event whose signature is right.
func (c *Client) read(body []byte) (n provider.Notice, err error) {
	var e api.Event
	if err := json.Unmarshal(body, &e); err != nil {
		return n, err
	}
	if e.Data == nil {
		return n, errors.New("stripe: an event without data")
	}
	merchant, at := c.merchant(e.Livemode, e.Account), time.Unix(e.Created, 0)
	switch e.Type {
	case api.EventTypeCheckoutSessionCompleted, api.EventTypeCheckoutSessionAsyncPaymentSucceeded:
		var s api.CheckoutSession
		if err := json.Unmarshal(e.Data.Raw, &s); err != nil {
			return n, err
		}
		if s.Mode != api.CheckoutSessionModePayment || s.PaymentStatus != api.CheckoutSessionPaymentStatusPaid || s.Metadata[MetaPayment] == "" {
			return n, nil // another use of the account, or money that is under way
		}
		capture, err := c.capture(&s, merchant, at)
		return provider.Notice{Capture: &capture}, err
	case api.EventTypeRefundCreated, api.EventTypeRefundUpdated, api.EventTypeRefundFailed, api.EventTypeChargeRefundUpdated:
		var r api.Refund
		if err := json.Unmarshal(e.Data.Raw, &r); err != nil {
			return n, err
		}
		if r.Metadata[MetaRefund] == "" {
			return n, nil // made in the dashboard; the statement shows it
		}
		st, err := c.refunded(&r, merchant, at)
		return provider.Notice{Refund: &st}, err
	case api.EventTypeChargeDisputeCreated, api.EventTypeChargeDisputeUpdated, api.EventTypeChargeDisputeClosed,
		api.EventTypeChargeDisputeFundsWithdrawn, api.EventTypeChargeDisputeFundsReinstated:
		var d api.Dispute
		if err := json.Unmarshal(e.Data.Raw, &d); err != nil {
			return n, err
		}
		if d.PaymentIntent == nil {
			return n, nil // another use of the account
		}
		c, err := c.disputed(&d, e.Type, merchant)
		return provider.Notice{Chargeback: &c}, err
	default: // such as checkout.session.expired and charge.refunded: nothing moved that another event does not report
		return n, nil
	}
}

// Answer implements provider.Provider.
func (c *Client) Answer(err error) provider.Reply {
	status, text := http.StatusOK, "ok"
	if err != nil {
		status, text = provider.Refusal(err)
	}
	return provider.Reply{Status: status, ContentType: "text/plain; charset=utf-8", Body: []byte(text)}
}
