package sandbox

import (
	"cmp"
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

// Client is the sandbox bank as a payment provider. Safe for concurrent use.
type Client struct {
	*outbound.Client
	cfg      ClientConfig
	merchant signer // signs requests
	bank     signer // checks replies and callbacks
}

var _ provider.Provider = (*Client)(nil)

// NewClient returns the provider. It makes no call.
func NewClient(cfg ClientConfig, clk clock.Clock) *Client {
	c := &Client{Client: outbound.New(cfg.Config), cfg: cfg}
	c.merchant, c.bank = signers(cfg.Secret, clk.Now)
	return c
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
	var r paymentReply
	err := c.exchange(ctx, createCall{call: c.call(opCreate), Opening: Opening{
		PaymentNo: ch.PaymentNo.String(), Title: ch.Title, Amount: ch.Amount, Currency: ch.Currency,
		ExpiresAt: ch.ExpiresAt, NotifyURL: ch.NotifyURL, ReturnURL: ch.ReturnURL,
	}}, &r)
	if err == nil && r.Status != StatusOpen {
		err = fmt.Errorf("sandbox: create: it is %s: %w", r.Status, provider.ErrClosed)
	}
	return provider.Handoff{URL: r.PayURL}, err
}

// Query implements provider.Provider.
func (c *Client) Query(ctx context.Context, p provider.Payment) (provider.Status, error) {
	return c.ask(ctx, opQuery, p.No)
}

// Close implements provider.Provider.
func (c *Client) Close(ctx context.Context, p provider.Payment) (provider.Status, error) {
	s, err := c.ask(ctx, opClose, p.No)
	if err == nil && s.State != provider.Closed && s.State != provider.Captured {
		return provider.Status{}, fmt.Errorf("sandbox: close: the payment is still %s", s.State)
	}
	return s, err
}

// The bank's words for the states.
var (
	states = map[string]provider.State{
		StatusOpen: provider.Open, StatusClosed: provider.Closed, StatusCaptured: provider.Captured, statusMissing: provider.Missing,
	}
	refundStates = map[string]provider.RefundState{
		StatusProcessing: provider.Processing, StatusSucceeded: provider.Succeeded, StatusFailed: provider.Failed,
	}
)

// ask makes a request about one payment.
func (c *Client) ask(ctx context.Context, op string, no ids.ID) (provider.Status, error) {
	var r paymentReply
	if err := c.exchange(ctx, paymentCall{c.call(op), no.String()}, &r); err != nil {
		return provider.Status{}, err
	}
	out := provider.Status{State: states[r.Status]}
	switch {
	case out.State == 0:
		return out, fmt.Errorf("sandbox: %s: unknown status %q", op, r.Status)
	case out.State == provider.Captured && (r.Transaction == "" || r.At.IsZero()):
		return out, fmt.Errorf("sandbox: %s: a capture without transaction or time", op)
	case out.State == provider.Captured:
		out.Capture = provider.Capture{
			Merchant: r.Merchant, PaymentNo: no, Transaction: r.Transaction, Amount: r.Captured, Currency: r.Currency, At: r.At,
		}
	}
	return out, nil
}

// Refund implements provider.Provider.
func (c *Client) Refund(ctx context.Context, ret provider.Return) (provider.RefundStatus, error) {
	var r refundReply
	if err := c.exchange(ctx, refundCall{call: c.call(opRefund), Repayment: Repayment{
		RefundNo: ret.RefundNo.String(), PaymentNo: ret.Payment.No.String(), Transaction: ret.Transaction,
		Amount: ret.Amount, Currency: ret.Currency, NotifyURL: ret.NotifyURL,
	}}, &r); err != nil {
		return provider.RefundStatus{}, err
	}
	out := provider.RefundStatus{
		State: refundStates[r.Status], Merchant: r.Merchant, RefundNo: ret.RefundNo, PaymentNo: ret.Payment.No, Transaction: r.Transaction,
		Amount: r.Amount, Currency: r.Currency, At: r.At,
	}
	switch {
	case out.State == 0:
		return out, fmt.Errorf("sandbox: refund: unknown status %q", r.Status)
	case out.State == provider.Succeeded && (r.Transaction == "" || r.At.IsZero()):
		return out, errors.New("sandbox: refund: a success without transaction or time")
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
	if err != nil {
		a.Code = "FAIL"
		status, a.Message = provider.Refusal(err)
	}
	body, _ := json.Marshal(a) // two strings always encode
	return provider.Reply{Status: status, ContentType: "application/json", Body: body}
}

// Statement implements provider.Provider.
func (c *Client) Statement(ctx context.Context, d provider.Day) provider.Lines {
	return provider.LinesOf(func(pass func(provider.Line) bool) error {
		r := statementReply{More: true}
		for after := (Mark{}); r.More; {
			r = statementReply{}
			if err := c.exchange(ctx, statementCall{call: c.call(opStatement), From: d.From, To: d.To, Mark: after}, &r); err != nil {
				return err
			}
			for _, m := range r.Movements {
				after = Mark{m.At, m.Ref}
				if l, err := lineOf(m); err != nil || !m.ChargedBack && !pass(l) {
					return err
				}
			}
		}
		return nil
	})
}

// lineOf is a movement in the bank's own protocol, which has no chargebacks.
func lineOf(m Movement) (l provider.Line, err error) {
	l = provider.Line{Kind: provider.Paid, Transaction: m.Transaction, Amount: m.Amount, Currency: m.Currency, At: m.At}
	if l.PaymentNo, err = ids.Parse(m.PaymentNo); err == nil && m.RefundNo != "" {
		l.Kind = provider.PaidBack
		l.RefundNo, err = ids.Parse(m.RefundNo)
	}
	return l, err
}

// errOtherReply marks a genuine reply of the bank to another request.
var errOtherReply = errors.New("sandbox: the reply belongs to another request")

// exchange makes one call and decodes its verified reply into out. The reply has to
// carry the request's nonce, or a recorded one could be replayed. A refusal by
// the bank is provider.ErrRefused with the bank's message. Every call may be
// repeated, because the bank processes each number once.
func (c *Client) exchange(ctx context.Context, in interface{ head() call }, out interface{ nonce() ids.ID }) error {
	head := in.head()
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("sandbox: %s: encode: %w", head.Op, err)
	}
	var refused error
	err = c.Do(ctx, outbound.Request{
		URL: c.cfg.BankURL + Prefix + "/v1/" + head.Op, Body: body, Type: "application/json",
		Head: func(h http.Header) { c.merchant.sign(h, body) },
	}, func(r outbound.Reply) error {
		// A reply that the bank did not sign counts as no answer.
		if err := c.bank.verify(r.Header, r.Body); err != nil {
			return fmt.Errorf("status %d: %w", r.Status, err)
		}
		if r.Status == http.StatusOK {
			if refused = decodeStrict(r.Body, out); refused == nil && out.nonce() != head.Nonce {
				refused = errOtherReply
			}
			return nil
		}
		refused = refusedBy(r, head.Nonce)
		if r.Status >= http.StatusInternalServerError {
			return refused
		}
		return nil
	})
	if err = cmp.Or(err, refused); err != nil {
		return fmt.Errorf("sandbox: %s: %w", head.Op, err)
	}
	return nil
}

// refusedBy returns the error that a reply other than 200 reports.
func refusedBy(r outbound.Reply, nonce ids.ID) error {
	var no errorReply
	if err := decodeStrict(r.Body, &no); err != nil {
		return fmt.Errorf("status %d: %w", r.Status, err)
	}
	if no.Code == codeNotReady && no.Nonce == nonce {
		return provider.ErrNotReady
	}
	// Only a reply that names the request and refuses its content is final; a bad
	// signature or a server error may be fixed later.
	final := r.Status == http.StatusConflict || r.Status == http.StatusUnprocessableEntity
	if final && no.Nonce == nonce {
		return fmt.Errorf("%w: %s: %s", provider.ErrRefused, no.Code, no.Message)
	}
	return fmt.Errorf("status %d: %s: %s", r.Status, no.Code, no.Message)
}
