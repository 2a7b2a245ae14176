package sandbox

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/jackc/pgx/v5"

	"stampede/payment/sandbox/internal/sandboxdb"
	"stampede/platform/base/ids"
	"stampede/platform/edge/outbound"
	"stampede/platform/store/pg"
)

// Dialect is a protocol in which the bank serves one merchant: its own, or that of
// another company, for practice. The books, the pay page, the misbehaviour and the
// repetition of callbacks are the bank's.
type Dialect interface {
	// Account is the shop's at the company; its payments and refunds are those of the
	// dialect.
	Account() Account
	// Routes serves the merchant's API at the desk.
	Routes(mux chi.Router, desk Desk)
	// Callback writes an event as the company reports it, or nothing if it does not. It
	// is sent, unchanged, until it is acknowledged.
	Callback(e Event) (body []byte, err error)
	// Head sets the media type and the signature of one attempt to send a callback.
	Head(h http.Header, body []byte)
	// Acknowledged reports whether the shop's reply ends the repetition.
	Acknowledged(r outbound.Reply) bool
}

// Account is a merchant's.
type Account struct {
	Merchant string // its number
	Company  string // whose protocol it is, for the page; empty for the bank's own
}

// Desk is where a dialect opens the bank's books for its merchant. A *RefusalError is an
// answer that does not change; any other error may be retried.
type Desk struct {
	bank     *Bank
	merchant string
}

// Opening is a payment to be made.
type Opening struct {
	PaymentNo string    `json:"payment_no"` // 1 to 64 letters, digits, - or _
	Title     string    `json:"title"`      // as much of it as fits is shown
	Amount    int64     `json:"amount"`     // minor units, above 0
	Currency  string    `json:"currency"`
	ExpiresAt time.Time `json:"expires_at"`
	NotifyURL string    `json:"notify_url"`
	ReturnURL string    `json:"return_url,omitempty"`
}

// Payment is a payment in the bank's books, and in its replies. Transaction, Captured and
// At are set once its status is StatusCaptured.
type Payment struct {
	Ref         ids.ID    `json:"-"` // the bank's own number
	No          string    `json:"payment_no"`
	Status      string    `json:"status"`
	Amount      int64     `json:"amount"`
	Currency    string    `json:"currency"`
	ExpiresAt   time.Time `json:"-"`
	PayURL      string    `json:"pay_url,omitempty"` // the page on which the shopper pays
	NotifyURL   string    `json:"-"`                 // where its callbacks go
	Transaction string    `json:"transaction,omitempty"`
	Captured    int64     `json:"captured,omitempty"` // what the bank really took
	Refunded    int64     `json:"-"`                  // what of it is refunded or set aside for that
	At          time.Time `json:"at,omitzero"`
}

// Repayment is a refund to be made.
type Repayment struct {
	RefundNo    string `json:"refund_no"`
	PaymentNo   string `json:"payment_no"`
	Transaction string `json:"transaction"` // of the capture
	Amount      int64  `json:"amount"`
	Currency    string `json:"currency"`
	NotifyURL   string `json:"notify_url"`
}

// Refund is a refund in the bank's books, and in its replies. Transaction and At are set
// once it has ended.
type Refund struct {
	Ref         ids.ID    `json:"-"`
	No          string    `json:"refund_no"`
	PaymentNo   string    `json:"payment_no"`
	Status      string    `json:"status"`
	Amount      int64     `json:"amount"`
	Currency    string    `json:"currency"`
	Transaction string    `json:"transaction,omitempty"`
	At          time.Time `json:"at,omitzero"`
}

// Event is what a callback reports: a payment that was captured, a refund that ended,
// or a dispute.
type Event struct {
	Payment Payment
	Refund  *Refund  // nil for a capture
	Dispute *Dispute // nil for a capture
}

// minWindow is the shortest life of a payment that the bank accepts: in less
// than a second a shopper could not even load the page.
const minWindow = time.Second

// RefusalError is an answer that does not change when the request is repeated.
type RefusalError struct {
	Status  int // in the bank's own protocol
	Code    string
	Message string
}

func (r *RefusalError) Error() string { return r.Code + ": " + r.Message }

func refuse(status int, code, message string) error { return &RefusalError{status, code, message} }

// invalid refuses what the bank could not carry out or display.
func invalid(message string) error {
	return refuse(http.StatusUnprocessableEntity, "invalid", message)
}

var (
	numberPattern   = regexp.MustCompile(`^[0-9A-Za-z_-]{1,64}$`)
	currencyPattern = regexp.MustCompile(`^[A-Z]{3}$`)
)

// maxTitleRunes is how much of a title fits the page's one line.
const maxTitleRunes = 128

// check refuses what the bank could not carry out or display.
func (o Opening) check() error {
	switch {
	case !numberPattern.MatchString(o.PaymentNo):
		return invalid("payment_no is 1 to 64 letters, digits, - or _")
	case o.Amount <= 0:
		return invalid("amount is in minor units and above 0")
	case !currencyPattern.MatchString(o.Currency):
		return invalid("currency is three capital letters")
	case checkURL(o.NotifyURL) != nil:
		return invalid("notify_url is an absolute http or https address")
	case o.ReturnURL != "" && checkURL(o.ReturnURL) != nil:
		return invalid("return_url is an absolute http or https address")
	}
	return nil
}

// Create makes a payment, or finds the existing one: a repeated call returns the
// payment's current state. Another amount under the same number is refused.
func (d Desk) Create(ctx context.Context, o Opening) (Payment, error) {
	b := d.bank
	if err := o.check(); err != nil {
		return Payment{}, err
	}
	title := []rune(o.Title)
	title = title[:min(len(title), maxTitleRunes)]
	p, err := b.q.CreatePayment(ctx, sandboxdb.CreatePaymentParams{
		Ref: ids.New(), Merchant: d.merchant, PaymentNo: o.PaymentNo, Title: string(title), Amount: o.Amount, Currency: o.Currency,
		NotifyUrl: o.NotifyURL, ReturnUrl: o.ReturnURL, ExpiresAt: o.ExpiresAt, LeastWindowMs: minWindow.Milliseconds(),
	})
	if err == nil {
		return b.shown(p), nil
	}
	if errors.Is(err, pgx.ErrNoRows) {
		p, err = b.q.PaymentByNumber(ctx, sandboxdb.PaymentByNumberParams{Merchant: d.merchant, PaymentNo: o.PaymentNo})
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = invalid("expires_at leaves the shopper less than a second")
	}
	if err == nil {
		p, err = b.answers(ctx, p)
	}
	if err != nil {
		return Payment{}, err
	}
	if p.Status == StatusOpen && (p.Amount != o.Amount || p.Currency != o.Currency) {
		return Payment{}, refuse(http.StatusConflict, "number-taken", "this payment_no was created with another amount")
	}
	return b.shown(p), nil
}

// Payment returns a payment; known is false for a number that the bank never saw.
func (d Desk) Payment(ctx context.Context, no string) (p Payment, known bool, err error) {
	row, err := d.bank.q.PaymentByNumber(ctx, sandboxdb.PaymentByNumberParams{Merchant: d.merchant, PaymentNo: no})
	return d.found(ctx, row, err)
}

// PaymentByRef returns a payment by the bank's own number.
func (d Desk) PaymentByRef(ctx context.Context, ref ids.ID) (p Payment, known bool, err error) {
	row, err := d.bank.q.PaymentByRef(ctx, ref)
	return d.found(ctx, row, err)
}

func (d Desk) found(ctx context.Context, row sandboxdb.SandboxPayment, err error) (p Payment, known bool, _ error) {
	if errors.Is(err, pgx.ErrNoRows) || err == nil && row.Merchant != d.merchant {
		return p, false, nil
	}
	if err == nil {
		row, err = d.bank.answers(ctx, row)
	}
	return d.bank.shown(row), err == nil, err
}

// Opened returns a page of the payments that were opened since a time and before that
// of a number of the bank's, newest first.
func (d Desk) Opened(ctx context.Context, since time.Time, before ids.ID, atMost int32) ([]Payment, error) {
	rows, err := d.bank.q.PaymentsOpened(ctx, sandboxdb.PaymentsOpenedParams{
		Merchant: d.merchant, FromTime: since, Before: before, AtMost: atMost,
	})
	list := make([]Payment, len(rows))
	for i, row := range rows {
		if row, err = d.bank.upToDate(ctx, row); err != nil {
			return nil, err
		}
		list[i] = d.bank.shown(row)
	}
	return list, err
}

// Close ends a payment unless it is captured, and returns its final state. A number
// that the bank never saw is closed as well: a creation still in transit must not
// open it afterwards.
func (d Desk) Close(ctx context.Context, no string) (Payment, error) {
	if !numberPattern.MatchString(no) {
		return Payment{}, invalid("payment_no is 1 to 64 letters, digits, - or _")
	}
	if err := d.bank.q.ClosePayment(ctx, sandboxdb.ClosePaymentParams{Ref: ids.New(), Merchant: d.merchant, PaymentNo: no}); err != nil {
		return Payment{}, err
	}
	p, _, err := d.Payment(ctx, no)
	return p, err
}

// Refund reserves the money and returns StatusProcessing; a repeated request with the
// same number returns the refund's state.
func (d Desk) Refund(ctx context.Context, c Repayment) (Refund, error) {
	if err := c.check(); err != nil {
		return Refund{}, err
	}
	r, known, err := d.RefundOf(ctx, c.RefundNo)
	if err == nil && !known {
		// Another request for the same refund may have taken the number, or set the money aside, meanwhile.
		notMade := d.startRefund(ctx, c)
		if r, known, err = d.RefundOf(ctx, c.RefundNo); err == nil && !known {
			err = notMade
		}
	}
	if err == nil && (r.PaymentNo != c.PaymentNo || r.Amount != c.Amount || r.Currency != c.Currency) {
		err = refuse(http.StatusConflict, "number-taken", "this refund_no was used for another refund")
	}
	return r, err
}

// RefundOf returns a refund; known is false for a number that the bank never saw.
func (d Desk) RefundOf(ctx context.Context, no string) (r Refund, known bool, err error) {
	row, err := d.bank.q.RefundByNumber(ctx, sandboxdb.RefundByNumberParams{Merchant: d.merchant, RefundNo: no})
	if errors.Is(err, pgx.ErrNoRows) {
		return Refund{}, false, nil
	}
	return returned(row), err == nil, err
}

// RefundsOf returns the latest refunds of a payment, newest first.
func (d Desk) RefundsOf(ctx context.Context, p Payment, atMost int32) ([]Refund, error) {
	rows, err := d.bank.q.RefundsOfPayment(ctx, sandboxdb.RefundsOfPaymentParams{PaymentRef: p.Ref, AtMost: atMost})
	list := make([]Refund, len(rows))
	for i, row := range rows {
		list[i] = returned(row)
	}
	return list, err
}

// errSilent leaves a call about a payment without an answer; see Silent.
var errSilent = errors.New("sandbox: the payment's behaviour is silence")

// answers is upToDate for a merchant's call, which Silent leaves without an answer.
func (b *Bank) answers(ctx context.Context, p sandboxdb.SandboxPayment) (sandboxdb.SandboxPayment, error) {
	if p.SilentUntil != nil {
		now, err := pg.Now(ctx, b.db)
		if err == nil && now.Before(*p.SilentUntil) {
			err = errSilent
		}
		if err != nil {
			return p, err
		}
	}
	return b.upToDate(ctx, p)
}

// upToDate records an expiry that has not been recorded yet.
func (b *Bank) upToDate(ctx context.Context, p sandboxdb.SandboxPayment) (sandboxdb.SandboxPayment, error) {
	if p.Status != StatusOpen {
		return p, nil
	}
	expired, err := b.q.Expire(ctx, p.Ref)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, nil // as it was read
	}
	return expired, err
}

// shown is a payment as its merchant sees it.
func (b *Bank) shown(p sandboxdb.SandboxPayment) Payment {
	out := Payment{
		Ref: p.Ref, No: p.PaymentNo, Status: p.Status, Amount: p.Amount, Currency: p.Currency, ExpiresAt: p.ExpiresAt,
		NotifyURL: p.NotifyUrl, Captured: p.CapturedAmount, Refunded: p.Refunded,
	}
	switch p.Status {
	case StatusOpen:
		out.PayURL = b.payURL(p.Ref)
	case StatusCaptured:
		out.Transaction, out.At = *p.Txn, *p.CapturedAt
	}
	return out
}
