package sandbox

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/jackc/pgx/v5"

	"stampede/payment/sandbox/internal/sandboxdb"
	"stampede/platform/base/app"
	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
)

// payRequest is what a shopper, or a program in that role, sends to a pay URL:
// a form from the page, or the same as JSON. The token stays in the URL.
type payRequest struct {
	Action       string    `json:"action"`                  // "pay" or "fail"; empty is "pay"
	Behaviour    Behaviour `json:"behaviour,omitempty"`     // empty is as it should be
	DelaySeconds *int32    `json:"delay_seconds,omitempty"` // for Late
}

// pay lets a shopper pay, or fail to. A second press of the button shows that
// the money has already moved. JSON is answered by the Payment: "open" after a failed
// attempt, "captured", or "closed".
func (b *Bank) pay(w http.ResponseWriter, r *http.Request) {
	isJSON := strings.HasPrefix(r.Header.Get("Content-Type"), "application/json")
	p, failed, err := b.tryToPay(w, r, isJSON)
	switch {
	case err != nil:
		no := b.refusal(w, r, "pay", err)
		if isJSON {
			writeJSON(w, no.Status, errorReply{Code: no.Code, Message: no.Message})
		} else {
			b.showNothing(w, r, no.Status)
		}
	case isJSON:
		status := http.StatusOK
		if p.Status == StatusClosed {
			status = http.StatusConflict
		}
		writeJSON(w, status, b.shown(p))
	default:
		// After a POST the browser gets the page by GET, so that a reload does not pay.
		q := r.URL.Query()
		q.Del("failed")
		if failed && p.Status == StatusOpen {
			q.Set("failed", "1")
		}
		http.Redirect(w, r, r.URL.Path+"?"+q.Encode(), http.StatusSeeOther) //nolint:gosec // back to this very route
	}
}

// tryToPay does what a request to a pay URL says, and returns the payment as it is then.
func (b *Bank) tryToPay(w http.ResponseWriter, r *http.Request, isJSON bool) (p sandboxdb.SandboxPayment, failed bool, err error) {
	ref, err := b.refOf(r)
	if err != nil {
		return p, false, err
	}
	body, err := readBody(w, r)
	if err != nil {
		return p, false, err
	}
	in, err := parsePay(body, isJSON)
	if err != nil {
		return p, false, err
	}
	if in.Action == "fail" {
		p, err = b.payment(r.Context(), ref)
		return p, true, err
	}
	p, err = b.capture(r.Context(), ref, in)
	return p, false, err
}

// capture takes the money, unless a close, another payment or the expiry was
// faster, and enqueues the callbacks that the behaviour requires in the same
// transaction. It returns the payment as it is then.
func (b *Bank) capture(ctx context.Context, ref ids.ID, in payRequest) (p sandboxdb.SandboxPayment, err error) {
	err = pg.InTx(ctx, b.db, func(tx pgx.Tx) error {
		q := b.q.WithTx(tx)
		txn := "sb-" + ids.New().String()
		p, err = q.Capture(ctx, sandboxdb.CaptureParams{Txn: &txn, Behaviour: string(in.Behaviour), DelaySeconds: in.DelaySeconds, Ref: ref})
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
	app.Kick(b.wake)
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
func parsePay(body []byte, isJSON bool) (in payRequest, err error) {
	if isJSON && len(body) > 0 {
		if err := decodeStrict(body, &in); err != nil {
			return in, refuse(http.StatusBadRequest, "bad-request", err.Error())
		}
	}
	if !isJSON {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return in, refuse(http.StatusBadRequest, "bad-request", "the form cannot be read")
		}
		in.Action, in.Behaviour = form.Get("action"), Behaviour(form.Get("behaviour"))
		if v := form.Get("delay_seconds"); v != "" {
			n, err := strconv.ParseInt(v, 10, 32)
			if err != nil {
				return in, invalid("delay_seconds is a whole number")
			}
			in.DelaySeconds = new(int32(n))
		}
	}
	if in.Action != "" && in.Action != "pay" && in.Action != "fail" {
		return in, invalid("action is pay or fail")
	}
	delay := int32(0)
	if in.DelaySeconds != nil {
		delay = *in.DelaySeconds
	}
	return in, checkBehaviour(in.Behaviour, delay)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the shopper may have left
}
