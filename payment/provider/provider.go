// Package provider is what Stampede asks of a company that moves money: the
// sandbox bank today, WeChat Pay and Alipay by the same five calls and one
// kind of message. An implementation speaks its company's language on one side
// and these types on the other; it keeps no state of its own and touches no
// database of ours. payment/providertest holds the suite that each of them has
// to pass.
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
// except where a method names an error of its own.
type Provider interface {
	Profile() Profile
	// Create opens a payment and returns where the shopper pays it. A repeated
	// call for an open payment returns the same. ErrClosed: the number is
	// closed or captured already; ErrRefused: it can never be created as asked.
	Create(ctx context.Context, c Charge) (payURL string, err error)
	// Query tells how a payment stands.
	Query(ctx context.Context, paymentNo ids.ID) (Status, error)
	// Close makes sure that a payment can no longer be paid and tells how it
	// stands afterwards: Closed, or Captured when the money was faster. A number
	// that the provider has never seen is Closed too.
	Close(ctx context.Context, paymentNo ids.ID) (Status, error)
	// Refund asks for money back, or, when the number was asked for before,
	// tells how that stands. ErrRefused: this refund can never be made.
	Refund(ctx context.Context, r Return) (RefundStatus, error)
	// Parse verifies a callback on its raw body and reads it. ErrBadSignature:
	// the provider did not send this, or not lately; ErrUnreadable: it did, but
	// this is no message we know. It must be safe on any input.
	Parse(h http.Header, body []byte) (Notice, error)
	// Answer is the reply, in the provider's own words, to a callback that was
	// handled with this outcome: nil acknowledges it for good, anything else
	// makes the provider send it again later.
	Answer(err error) Reply
}

// Profile is what does not change while the process runs.
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

// State is how a payment stands at its provider.
type State uint8

// The states.
const (
	Open     State = iota + 1 // the shopper may still pay
	Captured                  // the money has moved
	Closed                    // it can never be paid; also once it has expired
	Missing                   // the provider knows no such number
)

// String is the state's name for logs and metrics.
func (s State) String() string {
	return [...]string{"none", "open", "captured", "closed", "missing"}[s]
}

// Status is a payment as the provider tells it. Capture is set when State is
// Captured.
type Status struct {
	State   State
	Capture Capture
}

// Capture is money that moved to us, as the provider states it. Whether that
// is what we asked for is payment's business, not the provider's.
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
	Captured    int64  // the whole capture; some providers want both
	Currency    string
	Reason      string
	NotifyURL   string
}

// RefundState is how a refund stands at its provider.
type RefundState uint8

// The states of a refund.
const (
	Processing RefundState = iota + 1
	Succeeded
	Failed // for good: the money stays with us until a person finds another way
)

// RefundStatus is a refund as the provider tells it. Transaction and At are
// set when State is Succeeded.
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

// Notice is the content of a callback: one of the two is set, or neither when
// the message is genuine and needs nothing done.
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

// The errors that callers tell apart. They stay between payment and the
// provider, so they carry no words for a shopper.
var (
	ErrBadSignature = errors.New("provider: not signed by the provider, or too long ago")
	ErrUnreadable   = errors.New("provider: signed, but no message that we know")
	ErrClosed       = errors.New("provider: the payment can no longer be paid")
	ErrRefused      = errors.New("provider: refused for good")
)
