package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"stampede/payment/provider"
	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
	"stampede/platform/edge/outbound"
)

// ClientConfig is how the shop reaches its bank.
type ClientConfig struct {
	// Name of the provider in routes, rows and metrics. Defaults to "sandbox".
	Name string
	// Merchant and Secret identify the shop to the bank.
	Merchant string
	Secret   []byte
	// BankURL is where this process reaches the bank, without a trailing slash.
	BankURL string
	outbound.Config
}

// DefaultClientConfig returns the defaults; Merchant, Secret and BankURL have
// to be set by the caller.
func DefaultClientConfig() ClientConfig {
	return ClientConfig{Name: "sandbox", Config: outbound.Config{
		Peer: "sandbox-bank", Direct: true, // the bank is this process
		Conns: 32, MaxBytes: maxMessageBytes, // as many closings and creations as usually run concurrently
		Timeout: 3 * time.Second, Attempts: 3, Backoff: 50 * time.Millisecond, // the bank answers in milliseconds, and a shopper waits
		BreakerFailures: 10, BreakerDelay: 2 * time.Second, // a dead bank must not tie up the shop
	}}
}

// Validate returns every fault of the configuration in one error.
func (c ClientConfig) Validate() error {
	errs := []error{c.Config.Validate()}
	if c.Name == "" || c.Merchant == "" {
		errs = append(errs, errors.New("sandbox: the client needs a name and a merchant number"))
	}
	if len(c.Secret) < minSecretBytes {
		errs = append(errs, fmt.Errorf("sandbox: the secret has %d bytes, want at least %d", len(c.Secret), minSecretBytes))
	}
	if err := checkURL(c.BankURL); err != nil {
		errs = append(errs, fmt.Errorf("sandbox: bank URL: %w", err))
	}
	return errors.Join(errs...)
}

// Client is the sandbox bank as a payment provider. Safe for concurrent use.
type Client struct {
	*outbound.Client
	cfg      ClientConfig
	merchant signer // signs requests
	bank     signer // checks replies and callbacks
}

var _ provider.Provider = (*Client)(nil)

// NewClient returns the provider. It makes no call.
func NewClient(cfg ClientConfig, clk clock.Clock) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Client{Client: outbound.New(cfg.Config), cfg: cfg}
	c.merchant, c.bank = signers(cfg.Secret, clk.Now)
	return c, nil
}

// methodPage is the bank's only way to pay: its page in the shopper's browser.
const methodPage provider.Method = "page"

// Profile implements provider.Provider.
func (c *Client) Profile() provider.Profile {
	return provider.Profile{Name: c.cfg.Name, Merchant: c.cfg.Merchant, Methods: []provider.Method{methodPage}, MinWindow: minWindow}
}

// call makes the header fields of a request.
func (c *Client) call(op string) call {
	return call{Op: op, Nonce: ids.New(), Merchant: c.cfg.Merchant}
}

// Create implements provider.Provider.
func (c *Client) Create(ctx context.Context, ch provider.Charge) (provider.Handoff, error) {
	head := c.call(opCreate)
	var r paymentReply
	err := c.exchange(ctx, "payments", head.Nonce, createCall{call: head, Opening: Opening{
		PaymentNo: ch.PaymentNo.String(), Title: shorten(ch.Title), Amount: ch.Amount, Currency: ch.Currency,
		ExpiresAt: ch.ExpiresAt, NotifyURL: ch.NotifyURL, ReturnURL: ch.ReturnURL,
	}}, &r)
	if err != nil {
		return provider.Handoff{}, fmt.Errorf("sandbox: create: %w", err)
	}
	if r.PaymentNo != ch.PaymentNo.String() {
		return provider.Handoff{}, fmt.Errorf("sandbox: create: %w", errOtherReply)
	}
	switch r.Status {
	case StatusOpen:
		return provider.Handoff{URL: r.PayURL}, nil
	case StatusCaptured, StatusClosed:
		return provider.Handoff{}, fmt.Errorf("sandbox: create: %w", provider.ErrClosed)
	default:
		return provider.Handoff{}, fmt.Errorf("sandbox: create: unknown status %q", r.Status)
	}
}

// shorten cuts a title to the length that the bank accepts, between two
// characters.
func shorten(title string) string {
	n := 0
	for i := range title {
		if n++; n > maxTitleRunes {
			return title[:i]
		}
	}
	return title
}

// Query implements provider.Provider.
func (c *Client) Query(ctx context.Context, p provider.Payment) (provider.Status, error) {
	return c.ask(ctx, opQuery, "payments/query", p.No)
}

// Close implements provider.Provider.
func (c *Client) Close(ctx context.Context, p provider.Payment) (provider.Status, error) {
	s, err := c.ask(ctx, opClose, "payments/close", p.No)
	if err == nil && s.State != provider.Closed && s.State != provider.Captured {
		return provider.Status{}, fmt.Errorf("sandbox: close: the payment is still %s", s.State)
	}
	return s, err
}

// ask makes a request about one payment.
func (c *Client) ask(ctx context.Context, op, path string, paymentNo ids.ID) (provider.Status, error) {
	head := c.call(op)
	var r paymentReply
	if err := c.exchange(ctx, path, head.Nonce, paymentCall{call: head, PaymentNo: paymentNo.String()}, &r); err != nil {
		return provider.Status{}, fmt.Errorf("sandbox: %s: %w", op, err)
	}
	if r.PaymentNo != paymentNo.String() {
		return provider.Status{}, fmt.Errorf("sandbox: %s: %w", op, errOtherReply)
	}
	switch r.Status {
	case StatusOpen:
		return provider.Status{State: provider.Open}, nil
	case StatusClosed:
		return provider.Status{State: provider.Closed}, nil
	case statusMissing:
		return provider.Status{State: provider.Missing}, nil
	case StatusCaptured:
		if r.Transaction == "" || r.At == nil {
			return provider.Status{}, fmt.Errorf("sandbox: %s: a capture without transaction or time", op)
		}
		return provider.Status{State: provider.Captured, Capture: provider.Capture{
			Merchant: r.Merchant, PaymentNo: paymentNo, Transaction: r.Transaction, Amount: r.Amount, Currency: r.Currency, At: *r.At,
		}}, nil
	default:
		return provider.Status{}, fmt.Errorf("sandbox: %s: unknown status %q", op, r.Status)
	}
}

// Refund implements provider.Provider.
func (c *Client) Refund(ctx context.Context, ret provider.Return) (provider.RefundStatus, error) {
	head := c.call(opRefund)
	var r refundReply
	err := c.exchange(ctx, "refunds", head.Nonce, refundCall{call: head, Repayment: Repayment{
		RefundNo: ret.RefundNo.String(), PaymentNo: ret.Payment.No.String(), Transaction: ret.Transaction,
		Amount: ret.Amount, Currency: ret.Currency, Reason: ret.Reason, NotifyURL: ret.NotifyURL,
	}}, &r)
	if err != nil {
		return provider.RefundStatus{}, fmt.Errorf("sandbox: refund: %w", err)
	}
	if r.RefundNo != ret.RefundNo.String() {
		return provider.RefundStatus{}, fmt.Errorf("sandbox: refund: %w", errOtherReply)
	}
	out := provider.RefundStatus{
		Merchant: r.Merchant, RefundNo: ret.RefundNo, PaymentNo: ret.Payment.No, Transaction: r.Transaction, Amount: r.Amount, Currency: r.Currency,
	}
	switch r.Status {
	case StatusProcessing:
		out.State = provider.Processing
	case StatusFailed:
		out.State = provider.Failed
	case StatusSucceeded:
		if r.Transaction == "" || r.At == nil {
			return provider.RefundStatus{}, errors.New("sandbox: refund: a success without transaction or time")
		}
		out.State, out.At = provider.Succeeded, *r.At
	default:
		return provider.RefundStatus{}, fmt.Errorf("sandbox: refund: unknown status %q", r.Status)
	}
	return out, nil
}

// Parse implements provider.Provider.
func (c *Client) Parse(h http.Header, body []byte) (provider.Notice, error) {
	if err := c.bank.verify(h, body); err != nil {
		return provider.Notice{}, fmt.Errorf("%w: %w", provider.ErrBadSignature, err)
	}
	unreadable := func(err error) (provider.Notice, error) {
		return provider.Notice{}, fmt.Errorf("%w: %w", provider.ErrUnreadable, err)
	}
	var n notice
	if err := decodeStrict(body, &n); err != nil {
		return unreadable(err)
	}
	paymentNo, err := ids.Parse(n.PaymentNo)
	if err != nil {
		return unreadable(err)
	}
	if n.Transaction == "" || n.At.IsZero() {
		return unreadable(errors.New("sandbox: a callback without transaction or time"))
	}
	if n.Event == eventCaptured {
		return provider.Notice{Capture: &provider.Capture{
			Merchant: n.Merchant, PaymentNo: paymentNo, Transaction: n.Transaction, Amount: n.Amount, Currency: n.Currency, At: n.At,
		}}, nil
	}
	refundNo, err := ids.Parse(n.RefundNo)
	if err != nil {
		return unreadable(err)
	}
	r := &provider.RefundStatus{
		Merchant: n.Merchant, RefundNo: refundNo, PaymentNo: paymentNo, Transaction: n.Transaction, Amount: n.Amount, Currency: n.Currency, At: n.At,
	}
	switch n.Event {
	case eventRefundSucceeded:
		r.State = provider.Succeeded
	case eventRefundFailed:
		r.State = provider.Failed
	default:
		return unreadable(fmt.Errorf("sandbox: unknown event %q", n.Event))
	}
	return provider.Notice{Refund: r}, nil
}

// Answer implements provider.Provider.
func (c *Client) Answer(err error) provider.Reply {
	a, status := ack{Code: ackWord}, http.StatusOK
	switch {
	case err == nil:
	case errors.Is(err, provider.ErrBadSignature):
		a, status = ack{Code: "FAIL", Message: "bad signature"}, http.StatusUnauthorized
	case errors.Is(err, provider.ErrUnreadable):
		a, status = ack{Code: "FAIL", Message: "unreadable"}, http.StatusBadRequest
	default:
		a, status = ack{Code: "FAIL", Message: "not accepted, send it again"}, http.StatusServiceUnavailable
	}
	body, _ := json.Marshal(a) // two strings always encode
	return provider.Reply{Status: status, ContentType: "application/json", Body: body}
}
