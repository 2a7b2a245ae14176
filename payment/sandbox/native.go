package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"

	"github.com/go-chi/chi/v5"

	"stampede/platform/base/ids"
	"stampede/platform/edge/outbound"
)

// native is the bank's own protocol.
type native struct {
	number   string
	merchant signer // checks requests
	bank     signer // signs replies and callbacks
	log      *slog.Logger
}

// Merchant implements Dialect.
func (n native) Merchant() string { return n.number }

// Company implements Dialect.
func (native) Company() string { return "" }

// Routes implements Dialect.
func (n native) Routes(mux chi.Router, desk Desk) {
	mux.Post(Prefix+"/v1/payments", n.signed(opCreate, func(ctx context.Context, nonce ids.ID, body []byte) (any, error) {
		var c createCall
		if err := decode(body, &c); err != nil {
			return nil, err
		}
		p, err := desk.Create(ctx, c.Opening)
		return n.paymentReply(nonce, p), err
	}))
	mux.Post(Prefix+"/v1/payments/query", n.signed(opQuery, func(ctx context.Context, nonce ids.ID, body []byte) (any, error) {
		var c paymentCall
		if err := decode(body, &c); err != nil {
			return nil, err
		}
		p, known, err := desk.Payment(ctx, c.PaymentNo)
		if !known { // not a refusal: the merchant asks because it does not know
			p = Payment{No: c.PaymentNo, Status: statusMissing}
		}
		return n.paymentReply(nonce, p), err
	}))
	mux.Post(Prefix+"/v1/payments/close", n.signed(opClose, func(ctx context.Context, nonce ids.ID, body []byte) (any, error) {
		var c paymentCall
		if err := decode(body, &c); err != nil {
			return nil, err
		}
		p, err := desk.Close(ctx, c.PaymentNo)
		return n.paymentReply(nonce, p), err
	}))
	mux.Post(Prefix+"/v1/refunds", n.signed(opRefund, func(ctx context.Context, nonce ids.ID, body []byte) (any, error) {
		var c refundCall
		if err := decode(body, &c); err != nil {
			return nil, err
		}
		r, err := desk.Refund(ctx, c.Repayment)
		return n.refundReply(nonce, r), err
	}))
	mux.Post(Prefix+"/v1/statement", n.signed(opStatement, func(ctx context.Context, nonce ids.ID, body []byte) (any, error) {
		var c statementCall
		if err := decode(body, &c); err != nil {
			return nil, err
		}
		return n.statement(ctx, desk, nonce, c)
	}))
}

// decode refuses a body that is not exactly the operation's message.
func decode(body []byte, v any) error {
	if err := decodeStrict(body, v); err != nil {
		return refuse(http.StatusBadRequest, "bad-request", err.Error())
	}
	return nil
}

// handler performs one operation and returns the reply's body.
type handler func(ctx context.Context, nonce ids.ID, body []byte) (any, error)

// signed turns a handler into an endpoint of the merchant API: bounded body,
// signature over its raw bytes, operation and merchant as expected, a signed
// reply.
func (n native) signed(op string, h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessageBytes))
		if err != nil {
			n.reply(w, http.StatusRequestEntityTooLarge, errorReply{Code: "too-large", Message: "the body is too long or was truncated"})
			return
		}
		if err := n.merchant.verify(r.Header, body); err != nil {
			n.reply(w, http.StatusUnauthorized, errorReply{Code: "bad-signature", Message: err.Error()})
			return
		}
		var c call
		// Lenient on purpose: the operation's own struct is decoded strictly below.
		if err := json.Unmarshal(body, &c); err != nil || c.Op != op || c.Merchant != n.number {
			n.reply(w, http.StatusBadRequest, errorReply{Nonce: c.Nonce, Code: "bad-request", Message: "wrong operation or merchant"})
			return
		}
		answer, err := h(r.Context(), c.Nonce, body)
		if err == nil {
			n.reply(w, http.StatusOK, answer)
			return
		}
		var no *RefusalError
		if !errors.As(err, &no) {
			no = failed(w, r, n.log, op, err)
		}
		n.reply(w, no.Status, errorReply{Nonce: c.Nonce, Code: no.Code, Message: no.Message})
	}
}

// reply answers with the bank's signature, refusals too: a merchant must be able
// to tell the bank's refusal from that of a proxy.
func (n native) reply(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		// Only structs of strings, numbers and times reach this, and those always
		// encode.
		panic("sandbox: encode reply: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	n.bank.sign(w.Header(), body)
	w.WriteHeader(status)
	_, _ = w.Write(body) // a merchant that disconnected will ask again
}

// paymentReply returns a payment's state with its capture.
func (n native) paymentReply(nonce ids.ID, p Payment) paymentReply {
	r := paymentReply{Nonce: nonce, Merchant: n.number, PaymentNo: p.No, Status: p.Status, PayURL: p.PayURL}
	if p.Status == StatusCaptured {
		r.Transaction, r.Amount, r.Currency, r.At = p.Transaction, p.Captured, p.Currency, &p.At
	}
	return r
}

func (n native) refundReply(nonce ids.ID, r Refund) refundReply {
	out := refundReply{
		Nonce: nonce, Merchant: n.number, RefundNo: r.No, PaymentNo: r.PaymentNo, Status: r.Status, Amount: r.Amount, Currency: r.Currency,
	}
	if r.Status == StatusSucceeded {
		out.Transaction, out.At = r.Transaction, &r.At
	}
	return out
}

// Callback implements Dialect.
func (n native) Callback(e Event) ([]byte, error) {
	if e.Dispute != nil {
		return nil, nil
	}
	said := notice{
		Event: eventCaptured, Merchant: n.number, PaymentNo: e.Payment.No, Transaction: e.Payment.Transaction, Amount: e.Payment.Captured,
		Currency: e.Payment.Currency, At: e.Payment.At,
	}
	if r := e.Refund; r != nil {
		said.Event = eventRefundSucceeded
		if r.Status == StatusFailed {
			said.Event = eventRefundFailed
		}
		said.RefundNo, said.Transaction, said.Amount, said.At = r.No, r.Transaction, r.Amount, r.At
	}
	return json.Marshal(said)
}

// Head implements Dialect. Each attempt is signed again: a late one must still be
// fresh.
func (n native) Head(h http.Header, body []byte) {
	h.Set("Content-Type", "application/json")
	n.bank.sign(h, body)
}

// Acknowledged implements Dialect. Only status 200 with the agreed word acknowledges:
// a proxy's own page must not.
func (n native) Acknowledged(r outbound.Reply) bool {
	var a ack
	return r.Status == http.StatusOK && json.Unmarshal(r.Body, &a) == nil && a.Code == ackWord
}
