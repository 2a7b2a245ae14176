package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/base/signature"
	"stampede/platform/edge/auth"
)

// Prefix is the path under which the bank's endpoints are.
const Prefix = "/sandbox-bank"

// maxMessageBytes bounds every body in either direction; the longest real one
// is a creation with two long addresses, under 4 KiB.
const maxMessageBytes = 16 << 10

// The operations of the merchant API, as named in paths and in bodies.
const (
	opCreate    = "create"
	opQuery     = "query"
	opClose     = "close"
	opRefund    = "refund"
	opStatement = "statement"
)

// The states of payments and refunds in the bank's answers.
const (
	StatusOpen       = "open"
	StatusCaptured   = "captured"
	StatusClosed     = "closed"
	statusMissing    = "missing"
	StatusProcessing = "processing"
	StatusSucceeded  = "succeeded"
	StatusFailed     = "failed"
)

// The events that callbacks report.
const (
	eventCaptured        = "payment.captured"
	eventRefundSucceeded = "refund.succeeded"
	eventRefundFailed    = "refund.failed"
)

// call is the beginning of every signed request.
type call struct {
	Op       string `json:"op"`
	Nonce    ids.ID `json:"nonce"` // repeated in the reply
	Merchant string `json:"merchant"`
}

func (c call) head() call { return c }

type createCall struct {
	call
	Opening
}

// paymentCall is a query or a close.
type paymentCall struct {
	call
	PaymentNo string `json:"payment_no"`
}

type refundCall struct {
	call
	Repayment
}

// answered is the beginning of every reply to a request that was carried out.
type answered struct {
	Nonce    ids.ID `json:"nonce"`
	Merchant string `json:"merchant"`
}

func (a answered) nonce() ids.ID { return a.Nonce }

// paymentReply answers create, query and close.
type paymentReply struct {
	answered
	Payment
}

type refundReply struct {
	answered
	Refund
}

// statementCall asks for a page of a day's movements.
type statementCall struct {
	call
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Mark
}

type statementReply struct {
	answered
	Movements []Movement `json:"movements"`
	More      bool       `json:"more"`
}

// errorReply is the body of every refusal. Code is stable, Message is for
// people.
type errorReply struct {
	Nonce   ids.ID `json:"nonce"`
	Code    string `json:"error"`
	Message string `json:"message"`
}

// notice is the body of a callback.
type notice struct {
	Event       string    `json:"event"`
	Merchant    string    `json:"merchant"`
	PaymentNo   string    `json:"payment_no"`
	RefundNo    string    `json:"refund_no,omitempty"`
	Transaction string    `json:"transaction"`
	Amount      int64     `json:"amount"`
	Currency    string    `json:"currency"`
	At          time.Time `json:"at"`
}

// ackWord is the merchant's answer, with status 200, that acknowledges.
const ackWord = "SUCCESS"

// ack is the body of the merchant's answer to a callback.
type ack struct {
	Code    string `json:"code"`
	Message string `json:"message,omitempty"`
}

// decodeStrict decodes exactly one JSON object without unknown members.
func decodeStrict(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("sandbox: decode: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("sandbox: decode: data after the message")
	}
	return nil
}

// readBody reads a request's body as far as a message may be long.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessageBytes))
	if err != nil {
		return nil, refuse(http.StatusRequestEntityTooLarge, "too-large", "the body is too long or was truncated")
	}
	return body, nil
}

// The headers that carry a signature.
const (
	HeaderTimestamp = "Sandbox-Timestamp"
	HeaderSignature = "Sandbox-Signature"
)

var scheme = signature.Scheme{Timestamp: HeaderTimestamp, Signature: HeaderSignature}

// signer signs one side's messages. Both sides have both signers: one to sign,
// one to verify. Safe for concurrent use.
type signer struct {
	key []byte
	now func() time.Time
}

// signers derives a key for each direction from the shared secret.
func signers(secret []byte, now func() time.Time) (merchant, bank signer) {
	return signer{derive(secret, "merchant speaks"), now}, signer{derive(secret, "bank speaks"), now}
}

// derive makes a key of the shared secret for one purpose.
func derive(secret []byte, purpose string) []byte {
	return auth.MAC(secret, []byte("stampede sandbox bank/"+purpose))
}

// sign writes timestamp and signature of body into h.
func (s signer) sign(h http.Header, body []byte) { scheme.Sign(h, s.key, s.now(), body) }

// verify returns nil when h holds a fresh signature of body by s.
func (s signer) verify(h http.Header, body []byte) error {
	return scheme.Verify(h, s.key, s.now(), body)
}
