package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"stampede/payment/sandbox/internal/sandboxdb"
	"stampede/platform/base/ids"
)

// minWindow is the shortest life of a payment that the bank accepts: in less
// than a second a shopper could not even load the page.
const minWindow = time.Second

// refusal is an answer that does not change when the request is repeated.
type refusal struct {
	status  int
	code    string
	message string
}

func (r *refusal) Error() string { return r.code + ": " + r.message }

func refuse(status int, code, message string) error { return &refusal{status, code, message} }

// handler performs one operation and returns the reply's body.
type handler func(ctx context.Context, nonce ids.ID, body []byte) (any, error)

// signed turns a handler into an endpoint of the merchant API: bounded body,
// signature over its raw bytes, operation and merchant as expected, a signed
// reply.
func (b *Bank) signed(op string, h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessageBytes))
		if err != nil {
			b.reply(w, http.StatusRequestEntityTooLarge, errorReply{Code: "too-large", Message: "the body is too long or was truncated"})
			return
		}
		if err := b.merchant.verify(r.Header, body); err != nil {
			b.reply(w, http.StatusUnauthorized, errorReply{Code: "bad-signature", Message: err.Error()})
			return
		}
		var c call
		// Lenient on purpose: the operation's own struct is decoded strictly below.
		if err := json.Unmarshal(body, &c); err != nil || c.Op != op || c.Merchant != b.cfg.Merchant {
			b.reply(w, http.StatusBadRequest, errorReply{Nonce: c.Nonce, Code: "bad-request", Message: "wrong operation or merchant"})
			return
		}
		answer, err := h(r.Context(), c.Nonce, body)
		var no *refusal
		switch {
		case err == nil:
			b.reply(w, http.StatusOK, answer)
		case errors.As(err, &no):
			b.reply(w, no.status, errorReply{Nonce: c.Nonce, Code: no.code, Message: no.message})
		default:
			b.log.ErrorContext(r.Context(), "sandbox bank failed", "operation", op, "error", err)
			b.reply(w, http.StatusInternalServerError, errorReply{Nonce: c.Nonce, Code: "internal", Message: "try again"})
		}
	}
}

// reply answers with the bank's signature, refusals too: a merchant must be able
// to tell the bank's refusal from that of a proxy.
func (b *Bank) reply(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		// Only structs of strings, numbers and times reach this, and those always
		// encode.
		panic("sandbox: encode reply: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	b.bank.sign(w.Header(), body)
	w.WriteHeader(status)
	_, _ = w.Write(body) // a merchant that disconnected will ask again
}

var (
	numberPattern   = regexp.MustCompile(`^[0-9A-Za-z_-]{1,64}$`)
	currencyPattern = regexp.MustCompile(`^[A-Z]{3}$`)
)

// maxTitleRunes is how much of a title fits the page's one line.
const maxTitleRunes = 128

// check refuses what the bank could not carry out or display.
func (c createCall) check() error {
	bad := func(message string) error { return refuse(http.StatusUnprocessableEntity, "invalid", message) }
	switch {
	case !numberPattern.MatchString(c.PaymentNo):
		return bad("payment_no is 1 to 64 letters, digits, - or _")
	case c.Amount <= 0:
		return bad("amount is in minor units and above 0")
	case !currencyPattern.MatchString(c.Currency):
		return bad("currency is three capital letters")
	case !utf8.ValidString(c.Title) || utf8.RuneCountInString(c.Title) > maxTitleRunes:
		return bad("title is at most 128 characters")
	case c.Behaviour != "" && !c.Behaviour.Valid():
		return bad("behaviour is not one that the bank knows")
	case c.DelaySeconds < 0 || c.DelaySeconds > maxDelaySeconds:
		return bad("delay_seconds is between 0 and 86400")
	case checkURL(c.NotifyURL) != nil:
		return bad("notify_url is an absolute http or https address")
	case c.ReturnURL != "" && checkURL(c.ReturnURL) != nil:
		return bad("return_url is an absolute http or https address")
	}
	return nil
}

// create makes a payment, or finds the existing one. A repeated call answers
// with the payment's current state; a different amount under the same number is
// refused.
func (b *Bank) create(ctx context.Context, nonce ids.ID, body []byte) (any, error) {
	var c createCall
	if err := decodeStrict(body, &c); err != nil {
		return nil, refuse(http.StatusBadRequest, "bad-request", err.Error())
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	now, err := b.q.Clock(ctx)
	if err != nil {
		return nil, err
	}
	if c.Behaviour == "" {
		c.Behaviour = Normal
	}
	p, err := b.q.PaymentByNumber(ctx, sandboxdb.PaymentByNumberParams{Merchant: c.Merchant, PaymentNo: c.PaymentNo})
	if errors.Is(err, pgx.ErrNoRows) {
		if c.ExpiresAt.Before(now.Add(minWindow)) {
			return nil, refuse(http.StatusUnprocessableEntity, "invalid", "expires_at leaves the shopper less than a second")
		}
		// A concurrent creation may be faster; the row that won is read back below.
		if _, err = b.q.CreatePayment(ctx, sandboxdb.CreatePaymentParams{
			Ref: ids.New(), Merchant: c.Merchant, PaymentNo: c.PaymentNo, Title: c.Title, Amount: c.Amount, Currency: c.Currency,
			Behaviour: string(c.Behaviour), DelaySeconds: c.DelaySeconds, NotifyUrl: c.NotifyURL, ReturnUrl: c.ReturnURL, ExpiresAt: c.ExpiresAt,
		}); err != nil {
			return nil, err
		}
		p, err = b.q.PaymentByNumber(ctx, sandboxdb.PaymentByNumberParams{Merchant: c.Merchant, PaymentNo: c.PaymentNo})
	}
	if err != nil {
		return nil, err
	}
	if p, err = b.upToDate(ctx, p); err != nil {
		return nil, err
	}
	if p.Status == statusOpen && (p.Amount != c.Amount || p.Currency != c.Currency) {
		return nil, refuse(http.StatusConflict, "number-taken", "this payment_no was created with another amount")
	}
	return b.paymentReply(nonce, p), nil
}

// query returns the state of a payment. For a number that the bank never saw the
// answer is "missing", not a refusal: the merchant asks because it does not know.
func (b *Bank) query(ctx context.Context, nonce ids.ID, body []byte) (any, error) {
	var c paymentCall
	if err := decodeStrict(body, &c); err != nil {
		return nil, refuse(http.StatusBadRequest, "bad-request", err.Error())
	}
	p, err := b.q.PaymentByNumber(ctx, sandboxdb.PaymentByNumberParams{Merchant: c.Merchant, PaymentNo: c.PaymentNo})
	if errors.Is(err, pgx.ErrNoRows) {
		return paymentReply{Nonce: nonce, Merchant: c.Merchant, PaymentNo: c.PaymentNo, Status: statusMissing}, nil
	}
	if err != nil {
		return nil, err
	}
	if p, err = b.upToDate(ctx, p); err != nil {
		return nil, err
	}
	return b.paymentReply(nonce, p), nil
}

// close ends a payment unless it is captured, and answers with its final state.
// A number that the bank never saw is closed as well: a creation still in
// transit must not open it afterwards.
func (b *Bank) close(ctx context.Context, nonce ids.ID, body []byte) (any, error) {
	var c paymentCall
	if err := decodeStrict(body, &c); err != nil {
		return nil, refuse(http.StatusBadRequest, "bad-request", err.Error())
	}
	if !numberPattern.MatchString(c.PaymentNo) {
		return nil, refuse(http.StatusUnprocessableEntity, "invalid", "payment_no is 1 to 64 letters, digits, - or _")
	}
	if err := b.q.ClosePayment(ctx, sandboxdb.ClosePaymentParams{Ref: ids.New(), Merchant: c.Merchant, PaymentNo: c.PaymentNo}); err != nil {
		return nil, err
	}
	p, err := b.q.PaymentByNumber(ctx, sandboxdb.PaymentByNumberParams{Merchant: c.Merchant, PaymentNo: c.PaymentNo})
	if err != nil {
		return nil, err
	}
	return b.paymentReply(nonce, p), nil
}

// upToDate records an expiry that has not been recorded yet.
func (b *Bank) upToDate(ctx context.Context, p sandboxdb.SandboxPayment) (sandboxdb.SandboxPayment, error) {
	if p.Status != statusOpen {
		return p, nil
	}
	if err := b.q.Expire(ctx, p.Ref); err != nil {
		return p, err
	}
	return b.q.PaymentByRef(ctx, p.Ref)
}

// paymentReply returns a payment's state with its capture.
func (b *Bank) paymentReply(nonce ids.ID, p sandboxdb.SandboxPayment) paymentReply {
	r := paymentReply{Nonce: nonce, Merchant: p.Merchant, PaymentNo: p.PaymentNo, Status: p.Status}
	switch p.Status {
	case statusOpen:
		r.PayURL = b.payURL(p.Ref)
	case statusCaptured:
		r.Transaction, r.Amount, r.Currency, r.At = *p.Txn, p.CapturedAmount, p.Currency, p.CapturedAt
	}
	return r
}
