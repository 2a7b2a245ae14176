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
	endpoint(n, mux, "payments", opCreate, func(ctx context.Context, c createCall) (any, error) {
		p, err := desk.Create(ctx, c.Opening)
		return n.paymentReply(c.Nonce, p), err
	})
	endpoint(n, mux, "payments/query", opQuery, func(ctx context.Context, c paymentCall) (any, error) {
		p, known, err := desk.Payment(ctx, c.PaymentNo)
		if !known { // not a refusal: the merchant asks because it does not know
			p = Payment{No: c.PaymentNo, Status: statusMissing}
		}
		return n.paymentReply(c.Nonce, p), err
	})
	endpoint(n, mux, "payments/close", opClose, func(ctx context.Context, c paymentCall) (any, error) {
		p, err := desk.Close(ctx, c.PaymentNo)
		return n.paymentReply(c.Nonce, p), err
	})
	endpoint(n, mux, "refunds", opRefund, func(ctx context.Context, c refundCall) (any, error) {
		r, err := desk.Refund(ctx, c.Repayment)
		return n.refundReply(c.Nonce, r), err
	})
	endpoint(n, mux, "statement", opStatement, func(ctx context.Context, c statementCall) (any, error) {
		return n.statement(ctx, desk, c)
	})
}

// endpoint mounts an operation of the merchant API: bounded body, signature over its
// raw bytes, operation and merchant as expected, exactly the operation's message C, a
// signed reply.
func endpoint[C any](n native, mux chi.Router, path, op string, do func(ctx context.Context, c C) (any, error)) {
	mux.Post(Prefix+"/v1/"+path, func(w http.ResponseWriter, r *http.Request) {
		var head call
		answer, err := func(ctx context.Context) (any, error) {
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessageBytes))
			if err != nil {
				return nil, refuse(http.StatusRequestEntityTooLarge, "too-large", "the body is too long or was truncated")
			}
			if err := n.merchant.verify(r.Header, body); err != nil {
				return nil, refuse(http.StatusUnauthorized, "bad-signature", err.Error())
			}
			// Lenient on purpose: the operation's own message is decoded strictly below.
			if err := json.Unmarshal(body, &head); err != nil || head.Op != op || head.Merchant != n.number {
				return nil, refuse(http.StatusBadRequest, "bad-request", "wrong operation or merchant")
			}
			var c C
			if err := decodeStrict(body, &c); err != nil {
				return nil, refuse(http.StatusBadRequest, "bad-request", err.Error())
			}
			return do(ctx, c)
		}(r.Context())
		if err == nil {
			n.reply(w, http.StatusOK, answer)
			return
		}
		var no *RefusalError
		if !errors.As(err, &no) {
			no = failed(w, r, n.log, op, err)
		}
		n.reply(w, no.Status, errorReply{Nonce: head.Nonce, Code: no.Code, Message: no.Message})
	})
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
	r := paymentReply{answered: answered{nonce}, Merchant: n.number, PaymentNo: p.No, Status: p.Status, PayURL: p.PayURL}
	if p.Status == StatusCaptured {
		r.Transaction, r.Amount, r.Currency, r.At = p.Transaction, p.Captured, p.Currency, &p.At
	}
	return r
}

func (n native) refundReply(nonce ids.ID, r Refund) refundReply {
	out := refundReply{
		answered: answered{nonce}, Merchant: n.number, RefundNo: r.No, PaymentNo: r.PaymentNo, Status: r.Status, Amount: r.Amount, Currency: r.Currency,
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
