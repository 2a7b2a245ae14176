package sandbox

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/go-chi/chi/v5"

	"stampede/payment/provider"
	"stampede/platform/edge/outbound"
)

// native is the bank's own protocol.
type native struct {
	*Bank
	number   string
	merchant signer // checks requests
	bank     signer // signs replies and callbacks
}

// Account implements Dialect.
func (n native) Account() Account { return Account{Merchant: n.number} }

// Routes implements Dialect.
func (n native) Routes(mux chi.Router, desk Desk) {
	endpoint(n, mux, opCreate, func(ctx context.Context, c createCall, head answered) (any, error) {
		p, err := desk.Create(ctx, c.Opening)
		return paymentReply{head, p}, err
	})
	endpoint(n, mux, opQuery, func(ctx context.Context, c paymentCall, head answered) (any, error) {
		p, known, err := desk.Payment(ctx, c.PaymentNo)
		if !known { // not a refusal: the merchant asks because it does not know
			p = Payment{No: c.PaymentNo, Status: statusMissing}
		}
		return paymentReply{head, p}, err
	})
	endpoint(n, mux, opClose, func(ctx context.Context, c paymentCall, head answered) (any, error) {
		p, err := desk.Close(ctx, c.PaymentNo)
		return paymentReply{head, p}, err
	})
	endpoint(n, mux, opRefund, func(ctx context.Context, c refundCall, head answered) (any, error) {
		r, err := desk.Refund(ctx, c.Repayment)
		return refundReply{head, r}, err
	})
	endpoint(n, mux, opStatement, func(ctx context.Context, c statementCall, head answered) (any, error) {
		rows, err := desk.Movements(ctx, provider.Day{From: c.From, To: c.To}, c.Mark, statementPage+1)
		return statementReply{head, rows[:min(len(rows), statementPage)], len(rows) > statementPage}, err
	})
}

// endpoint mounts an operation of the merchant API: bounded body, signature over its
// raw bytes, operation and merchant as expected, exactly the operation's message C, a
// signed reply.
func endpoint[C any](n native, mux chi.Router, op string, do func(ctx context.Context, c C, head answered) (any, error)) {
	mux.Post(Prefix+"/v1/"+op, func(w http.ResponseWriter, r *http.Request) {
		var head call
		answer, err := func(ctx context.Context) (any, error) {
			body, err := readBody(w, r)
			if err != nil {
				return nil, err
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
			return do(ctx, c, answered{head.Nonce, n.number})
		}(r.Context())
		status := http.StatusOK
		if err != nil {
			no := n.refusal(w, r, op, err)
			status, answer = no.Status, errorReply{Nonce: head.Nonce, Code: no.Code, Message: no.Message}
		}
		n.reply(w, status, answer)
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
