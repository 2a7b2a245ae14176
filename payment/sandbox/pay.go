package sandbox

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/jackc/pgx/v5"

	"stampede/payment/sandbox/internal/sandboxdb"
	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
)

// payRequest is what a shopper, or a program in that role, sends to a pay URL:
// a form from the page, or the same as JSON. The token stays in the URL.
type payRequest struct {
	Action       string     `json:"action"`                  // "pay" or "fail"; empty is "pay"
	Behaviour    *Behaviour `json:"behaviour,omitempty"`     // replaces that of the creation
	DelaySeconds *int32     `json:"delay_seconds,omitempty"` // for Late
}

// payReply answers a payRequest that came as JSON.
type payReply struct {
	Status      string `json:"status"` // "open" after a failed attempt, "captured", "closed"
	Transaction string `json:"transaction,omitempty"`
	ReturnURL   string `json:"return_url,omitempty"`
}

// pay lets a shopper pay, or fail to. A second press of the button shows that
// the money has already moved.
func (b *Bank) pay(w http.ResponseWriter, r *http.Request) {
	wantsJSON := mediaType(r) == "application/json"
	ref, err := b.refOf(r)
	if err != nil {
		b.payRefused(w, r, wantsJSON, err)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessageBytes))
	if err != nil {
		b.payRefused(w, r, wantsJSON, refuse(http.StatusRequestEntityTooLarge, "too-large", "the body is too long or was truncated"))
		return
	}
	in, err := parsePay(body, wantsJSON)
	if err != nil {
		b.payRefused(w, r, wantsJSON, err)
		return
	}
	failed := in.Action == "fail"
	var p sandboxdb.SandboxPayment
	if failed {
		if err = b.q.CountFailedAttempt(r.Context(), ref); err == nil {
			p, err = b.payment(r.Context(), ref)
		}
	} else {
		p, err = b.capture(r.Context(), ref, in)
	}
	if err != nil {
		b.payRefused(w, r, wantsJSON, err)
		return
	}
	if !wantsJSON {
		// After a POST the browser gets the page by GET, so that a reload does not pay.
		q := r.URL.Query()
		q.Del("failed")
		if failed && p.Status == StatusOpen {
			q.Set("failed", "1")
		}
		http.Redirect(w, r, r.URL.Path+"?"+q.Encode(), http.StatusSeeOther) //nolint:gosec // back to this very route
		return
	}
	out := payReply{Status: p.Status, ReturnURL: p.ReturnUrl}
	status := http.StatusOK
	switch p.Status {
	case StatusCaptured:
		out.Transaction = *p.Txn
	case StatusClosed:
		status = http.StatusConflict
	}
	writeJSON(w, status, out)
}

// capture takes the money, unless a close, another payment or the expiry was
// faster, and enqueues the callbacks that the behaviour requires in the same
// transaction. It returns the payment as it is then.
func (b *Bank) capture(ctx context.Context, ref ids.ID, in payRequest) (p sandboxdb.SandboxPayment, err error) {
	err = pg.InTx(ctx, b.db, func(tx pgx.Tx) error {
		q := b.q.WithTx(tx)
		txn := "sb-" + ids.New().String()
		p, err = q.Capture(ctx, sandboxdb.CaptureParams{Txn: &txn, Behaviour: (*string)(in.Behaviour), DelaySeconds: in.DelaySeconds, Ref: ref})
		if err != nil {
			return err
		}
		told := b.shown(p)
		copies, delay := 1, time.Duration(0)
		switch Behaviour(p.Behaviour) {
		case Duplicate:
			copies = 2
		case Never:
			copies = 0
		case Late, Silent:
			delay = time.Duration(p.DelaySeconds) * time.Second
		case WrongAmount:
			told.Captured++ // in the callback only: a query returns what really moved
		case Normal, Underpaid, RefundFails, RefundBounces, ChargebackWon, ChargebackLost:
		}
		for range copies {
			if err := b.enqueue(ctx, q, p.Merchant, p.NotifyUrl, delay, Event{Payment: told}); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return b.payment(ctx, ref) // not open any more
	}
	if err != nil {
		return p, err
	}
	b.captures.Inc()
	b.nudge()
	return p, nil
}

// errNoPayment is also the answer to a wrong token, so that numbers cannot be probed.
var errNoPayment = refuse(http.StatusNotFound, "not-found", "there is no such payment")

// refOf is the bank's number in a pay URL whose token is right.
func (b *Bank) refOf(r *http.Request) (ids.ID, error) {
	ref, err := ids.Parse(chi.URLParam(r, "ref"))
	if err != nil || subtle.ConstantTimeCompare([]byte(r.URL.Query().Get("t")), []byte(b.pageToken(ref))) != 1 {
		return ids.ID{}, errNoPayment
	}
	return ref, nil
}

// payment is the current state of a payment.
func (b *Bank) payment(ctx context.Context, ref ids.ID) (sandboxdb.SandboxPayment, error) {
	p, err := b.q.PaymentByRef(ctx, ref)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, errNoPayment
	}
	if err != nil {
		return p, err
	}
	return b.upToDate(ctx, p)
}

// parsePay decodes the form or the JSON into the same request and applies the
// same rules to both.
func parsePay(body []byte, isJSON bool) (payRequest, error) {
	var in payRequest
	if isJSON {
		if len(body) > 0 {
			if err := decodeStrict(body, &in); err != nil {
				return in, refuse(http.StatusBadRequest, "bad-request", err.Error())
			}
		}
	} else {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return in, refuse(http.StatusBadRequest, "bad-request", "the form cannot be read")
		}
		in.Action = form.Get("action")
		if v := form.Get("behaviour"); v != "" {
			behaviour := Behaviour(v)
			in.Behaviour = &behaviour
		}
		if v := form.Get("delay_seconds"); v != "" {
			n, err := strconv.ParseInt(v, 10, 32)
			if err != nil {
				return in, refuse(http.StatusUnprocessableEntity, "invalid", "delay_seconds is a whole number")
			}
			seconds := int32(n)
			in.DelaySeconds = &seconds
		}
	}
	bad := func(message string) (payRequest, error) {
		return in, refuse(http.StatusUnprocessableEntity, "invalid", message)
	}
	switch {
	case in.Action != "" && in.Action != "pay" && in.Action != "fail":
		return bad("action is pay or fail")
	case in.Behaviour != nil && !in.Behaviour.Valid():
		return bad("behaviour is not one that the bank knows")
	case in.DelaySeconds != nil && (*in.DelaySeconds < 0 || *in.DelaySeconds > maxDelaySeconds):
		return bad("delay_seconds is between 0 and 86400")
	}
	return in, nil
}

// payRefused answers with an error that is not a state of the payment.
func (b *Bank) payRefused(w http.ResponseWriter, r *http.Request, wantsJSON bool, err error) {
	var no *RefusalError
	if !errors.As(err, &no) {
		no = failed(w, r, b.log, "pay", err)
	}
	if wantsJSON {
		writeJSON(w, no.Status, errorReply{Code: no.Code, Message: no.Message})
		return
	}
	b.showNothing(w, r, no.Status)
}

// mediaType is the request's, without parameters; "" if it is malformed.
func mediaType(r *http.Request) string {
	t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the shopper may have left
}
