// Package provider is Stampede's interface to a company that moves money: the
// sandbox bank today, WeChat Pay and Alipay by the same five calls and one kind
// of message. An implementation speaks its company's protocol on one side and
// these types on the other; it keeps no state and does not touch our database.
// payment/providertest holds the conformance suite that each of them has to
// pass.
package provider

import (
	"context"
	"errors"
	"net/http"
	"time"

	"stampede/platform/base/ids"
)

// Provider is one way to pay. All methods are safe for concurrent use, honour
// their context, and may be repeated with the same numbers: the provider does
// each thing once.
//
// An error means that the outcome is not known and the call may be repeated,
// except where a method documents a specific error.
type Provider interface {
	Profile() Profile
	// Create opens a payment and returns where the shopper pays it. A repeated
	// call for an open payment returns the same. ErrClosed: the number is
	// closed or captured already; ErrRefused: it can never be created as asked.
	Create(ctx context.Context, c Charge) (payURL string, err error)
	// Query returns the state of a payment.
	Query(ctx context.Context, paymentNo ids.ID) (Status, error)
	// Close makes sure that a payment can no longer be paid and returns its state
	// afterwards: Closed, or Captured if the money was faster. A number that the
	// provider has never seen is Closed too.
	Close(ctx context.Context, paymentNo ids.ID) (Status, error)
	// Refund requests a refund or, if the number was requested before, returns its
	// state. ErrRefused: this refund can never be made.
	Refund(ctx context.Context, r Return) (RefundStatus, error)
	// Parse verifies a callback on its raw body and decodes it. ErrBadSignature:
	// the provider did not send this, or sent it too long ago; ErrUnreadable: it
	// did, but the message is of no known kind. It must be safe on any input.
	Parse(h http.Header, body []byte) (Notice, error)
	// Answer is the reply, in the provider's format, to a callback that was
	// handled with this outcome: nil acknowledges it permanently, any error makes
	// the provider send it again later.
	Answer(err error) Reply
}

// Profile does not change while the process runs.
type Profile struct {
	Name     string // in routes, rows and metrics: lower case, "sandbox"
	Merchant string // our number at the provider, compared with what each callback names
	// MinWindow is the shortest time between creating a payment and its expiry
	// that the provider accepts; an activity with a shorter payment window
	// cannot offer this provider.
	MinWindow time.Duration
}

// Charge is a payment to be made.
type Charge struct {
	PaymentNo ids.ID
	Title     string
	Amount    int64 // minor units, above 0
	Currency  string
	ExpiresAt time.Time // the provider refuses money from then on
	NotifyURL string
	ReturnURL string // where the shopper's browser goes afterwards; may be empty
}

// State is the state of a payment at its provider.
type State uint8

// The states.
const (
	Open     State = iota + 1 // the shopper may still pay
	Captured                  // the money has moved
	Closed                    // it can never be paid; also once it has expired
	Missing                   // the provider has no such number
)

// String is the state's name for logs and metrics.
func (s State) String() string {
	return [...]string{"none", "open", "captured", "closed", "missing"}[s]
}

// Status is a payment as the provider reports it. Capture is set if State is
// Captured.
type Status struct {
	State   State
	Capture Capture
}

// Capture is money that moved to us, as the provider states it. The payment
// package, not the provider, checks whether that is what was charged.
type Capture struct {
	Merchant    string
	PaymentNo   ids.ID
	Transaction string // the provider's own number for this movement, unique there
	Amount      int64
	Currency    string
	At          time.Time
}

// Return is a refund to be made, of a whole capture or of a part of it.
type Return struct {
	RefundNo    ids.ID
	PaymentNo   ids.ID
	Transaction string // of the capture
	Amount      int64  // minor units, above 0
	Captured    int64  // the whole capture; some providers require both
	Currency    string
	Reason      string
	NotifyURL   string
}

// RefundState is the state of a refund at its provider.
type RefundState uint8

// The states of a refund.
const (
	Processing RefundState = iota + 1
	Succeeded
	Failed // permanently: the money stays with us until an operator refunds it another way
)

// RefundStatus is a refund as the provider reports it. Transaction and At are
// set if State is Succeeded.
type RefundStatus struct {
	State       RefundState
	Merchant    string
	RefundNo    ids.ID
	PaymentNo   ids.ID
	Transaction string
	Amount      int64
	Currency    string
	At          time.Time
}

// Notice is the content of a callback: one of the two is set, or neither if the
// message is genuine and requires no action.
type Notice struct {
	Capture *Capture
	Refund  *RefundStatus
}

// Reply is an HTTP answer.
type Reply struct {
	Status      int
	ContentType string
	Body        []byte
}

// The errors that callers distinguish. They stay between payment and the
// provider, so they carry no text for a shopper.
var (
	ErrBadSignature = errors.New("provider: not signed by the provider, or too long ago")
	ErrUnreadable   = errors.New("provider: signed, but not a known message")
	ErrClosed       = errors.New("provider: the payment can no longer be paid")
	ErrRefused      = errors.New("provider: refused permanently")
)
