// Package provider is Stampede's interface to a company that moves money. An
// implementation speaks its company's protocol on one side and these types on the
// other. It keeps no state and does not touch our database: what a later call
// needs of an earlier answer, such as the id of a checkout session, it returns as
// Handoff.Ref and gets back as Payment.Ref. payment/providertest holds the
// conformance suite that each of them has to pass.
package provider

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
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
	// Create opens a payment and returns what the shopper needs to pay it. A
	// repeated call for an open payment opens no second one: however many handoffs
	// there are, they take money once. After Handoff.Until it gives one that is usable
	// again. ErrClosed: the number is closed or captured already; ErrNoLogin: the method
	// needs Charge.OpenID; ErrRefused: it can never be created as asked.
	Create(ctx context.Context, c Charge) (Handoff, error)
	// Query returns the state of a payment.
	Query(ctx context.Context, p Payment) (Status, error)
	// Close ends a payment and returns its state afterwards: Closed if it can no
	// longer be paid, Captured if the money was faster, or Missing. Some providers
	// first learn of a payment when the shopper opens its page; until then they have
	// nothing to close, and take money until its expiry.
	Close(ctx context.Context, p Payment) (Status, error)
	// Refund requests a refund or, if the number was requested before, returns its
	// state, also while another request for it is carried out and after its answer was
	// lost. ErrRefused: this refund can never be made, and was not.
	Refund(ctx context.Context, r Return) (RefundStatus, error)
	// Statement reads what moved on a day from the provider's books, as far as it is ours,
	// while it is ranged over. ErrNotReady: it is not made yet.
	Statement(ctx context.Context, d Day) Lines
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
	// Methods are the ways to pay that it offers here, at least one; the first is
	// used when a shopper names none.
	Methods []Method
	// MinWindow is the shortest time between creating a payment and its expiry
	// that the provider accepts; an activity with a shorter payment window
	// cannot offer this provider.
	MinWindow time.Duration
	// Kinds says what a method's handoff is; Redirect for those that are not in it.
	Kinds map[Method]Kind
	// Logins are the apps of the provider with which a shopper has to be logged in, for the
	// methods that need it.
	Logins map[Method]string
	// Currencies are those that it takes; empty is any.
	Currencies []string
	// Zone is that of the days of which it makes statements; nil: it states any span.
	Zone *time.Location
	// StatementAfter is how long after its end a day's statement is made.
	StatementAfter time.Duration
}

// Takes reports whether the provider takes a currency.
func (p Profile) Takes(currency string) bool {
	return len(p.Currencies) == 0 || slices.Contains(p.Currencies, currency)
}

// Kind is what the shopper's page does with a method's handoff.
type Kind string

// The kinds.
const (
	Redirect Kind = "redirect" // it sends the browser to URL
	Scan     Kind = "qr_code"  // it shows QR for the shopper's phone
	InApp    Kind = "in_app"   // it passes JSAPI to the provider's app, with which the shopper has to be logged in
)

// Kind is what a method's handoff is.
func (p Profile) Kind(m Method) Kind { return cmp.Or(p.Kinds[m], Redirect) }

// Method is a way to pay, in the provider's own word: "native" and "jsapi" at
// WeChat Pay, "page" and "wap" at Alipay. Lower case.
type Method string

// Payment names a payment to its provider.
type Payment struct {
	No  ids.ID
	Ref string // Handoff.Ref of its creation; empty if that was never answered
}

// Handoff is what the shopper's device needs to pay. The method's kind says which of
// URL, QR and JSAPI is set.
type Handoff struct {
	Ref   string            `json:"ref,omitempty"`   // the provider's own name of the payment, if later calls need it
	URL   string            `json:"url,omitempty"`   // where to send the browser
	QR    string            `json:"qr,omitempty"`    // the text of a QR code for the shopper's phone
	JSAPI map[string]string `json:"jsapi,omitempty"` // the parameters of the payment call inside the provider's app
	// Until is when it is of no more use and has to be created again; zero: not before the payment expires.
	Until time.Time `json:"until,omitzero"`
}

// Is reports whether the handoff is of a kind.
func (h Handoff) Is(k Kind) bool {
	return (h.URL != "") == (k == Redirect) && (h.QR != "") == (k == Scan) && (len(h.JSAPI) > 0) == (k == InApp)
}

// Usable reports whether the provider has answered the creation and the shopper can still pay with the answer.
func (h Handoff) Usable(now time.Time) bool {
	return (h.URL != "" || h.QR != "" || len(h.JSAPI) > 0) && (h.Until.IsZero() || now.Before(h.Until))
}

// Charge is a payment to be made.
type Charge struct {
	PaymentNo ids.ID
	Method    Method // one of Profile.Methods
	Title     string
	Amount    int64 // minor units, above 0
	Currency  string
	ExpiresAt time.Time // the provider refuses money from then on
	NotifyURL string
	ReturnURL string // where the shopper's browser goes afterwards; may be empty
	// Address is the client's; some companies compare it with the payer's.
	Address netip.Addr
	// OpenID returns the shopper's name in an app of the provider, or "" if the shopper
	// did not log in with it. Nil: no shopper does.
	OpenID func(ctx context.Context, app string) (string, error)
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
	Payment     Payment
	Transaction string // of the capture
	Amount      int64  // minor units, above 0
	Captured    int64  // the whole capture; some providers require both
	Currency    string
	Reason      string // in words that the company may show to the shopper
	Code        string // the same as the shop's records name it
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

// RefundStatus is a refund as the provider reports it. At is set if State is
// Succeeded, and Transaction too unless the provider gives refunds no number of its
// own: RefundNo then names the movement.
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

// ChargebackState is how a chargeback stands.
type ChargebackState string

// The states of a chargeback.
const (
	ChargebackInquiry ChargebackState = "inquiry" // the bank only asks; no money moved
	ChargebackOpen    ChargebackState = "open"
	ChargebackWon     ChargebackState = "won"    // the shop keeps the money
	ChargebackLost    ChargebackState = "lost"   // the shopper does
	ChargebackClosed  ChargebackState = "closed" // it ended before money moved
)

// Chargeback is a payment that the shopper's bank takes back, or a part of it, as far as
// the report knows. No is the provider's number of the chargeback.
type Chargeback struct {
	Merchant  string
	No        string
	Capture   string // Capture.Transaction of the payment
	Amount    int64  // minor units
	Currency  string
	Reason    string
	State     ChargebackState
	Withdrawn bool // the money was taken from the shop
	// Reinstated says that it was given back since.
	Reinstated bool
	RespondBy  time.Time // when the shop's answer is due; may be zero
	Link       string    // where an operator answers
}

// Notice is the content of a callback: one of these is set, or none if the
// message is genuine and requires no action.
type Notice struct {
	Capture    *Capture
	Refund     *RefundStatus
	Chargeback *Chargeback
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
	ErrNoLogin      = errors.New("provider: the method needs a login with the provider's app")
)

// Why a report of a provider cannot be accepted. It is asked to repeat it: an operator may
// have fixed the cause by then.
var (
	ErrForeign  = errors.New("provider: the money belongs to another merchant")
	ErrUnknown  = errors.New("provider: it reports a number that is not ours")
	ErrMismatch = errors.New("provider: the amount is not the one that was charged or requested")
	ErrReused   = errors.New("provider: it gives two movements one number, or one refund two movements")
)

// Refusal is the HTTP status of an answer to a callback that was not accepted, and the reason.
func Refusal(err error) (status int, why string) {
	switch {
	case errors.Is(err, ErrBadSignature):
		return http.StatusUnauthorized, "bad signature"
	case errors.Is(err, ErrUnreadable):
		return http.StatusBadRequest, "unreadable"
	default:
		return http.StatusServiceUnavailable, "not accepted, send it again"
	}
}
