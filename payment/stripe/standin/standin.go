// Package standin is Stripe for practice and tests: its API in front of the sandbox
// bank's books. It checks the shop's secret key and signs callbacks with secrets of its
// own. A session's page is the bank's.
package standin

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/stripe/stripe-go/v84/webhook"

	"stampede/payment/sandbox"
	"stampede/payment/stripe"
	"stampede/platform/base/ids"
	"stampede/platform/edge/outbound"
)

// Prefix is the path under which the company's API is.
const Prefix = sandbox.Prefix + "/stripe"

// Company is the stand-in. Safe for concurrent use.
type Company struct {
	account string
	key     string    // the shop's
	secrets [2]string // of its endpoint: the present one and the one that replaces it
	rolling atomic.Bool
	broke   atomic.Bool
	refused sync.Map // refunds that were refused, as *refusal by the idempotency key
	now     func() time.Time
	log     *slog.Logger
}

var _ sandbox.Dialect = (*Company)(nil)

// Pair makes the keys of a shop and of a company that know each other, for a client at
// url.
func Pair(url string, now func() time.Time, log *slog.Logger) (*Company, stripe.Config) {
	c := &Company{
		account: "acct_practice", key: "sk_test_" + rand.Text(), secrets: [2]string{"whsec_" + rand.Text(), "whsec_" + rand.Text()}, now: now, log: log,
	}
	return c, stripe.Config{Key: c.key, Account: c.account, Secrets: []string{c.secrets[0]}, URL: url + Prefix}
}

// Roll signs with a second secret as well from now on, and returns it.
func (c *Company) Roll() string {
	c.rolling.Store(true)
	return c.secrets[1]
}

// Break has the shop's balance not cover a refund, or cover each again.
func (c *Company) Break(broke bool) { c.broke.Store(broke) }

// Account implements sandbox.Dialect.
func (c *Company) Account() sandbox.Account {
	return sandbox.Account{Merchant: c.account, Company: "Stripe"}
}

// Routes implements sandbox.Dialect.
func (c *Company) Routes(mux chi.Router, desk sandbox.Desk) {
	d := counter{c, desk}
	mux.Post(Prefix+"/v1/checkout/sessions", c.known(d.create))
	mux.Get(Prefix+"/v1/checkout/sessions", c.known(d.list))
	mux.Get(Prefix+"/v1/checkout/sessions/{id}", c.known(d.retrieve))
	mux.Post(Prefix+"/v1/checkout/sessions/{id}/expire", c.known(d.expire))
	mux.Get(Prefix+"/v1/payment_intents/{id}", c.known(d.intent))
	mux.Get(Prefix+"/v1/refunds", c.known(d.refunds))
	mux.Post(Prefix+"/v1/refunds", c.known(d.refund))
	mux.Get(Prefix+"/v1/balance_transactions", c.known(d.transactions))
}

// object is a JSON object of the API.
type object map[string]any

// refusal is an answer with an error of the API.
type refusal struct {
	status        int
	code, message string
	first         string // the request that a repetition under its key repeats
}

func (r *refusal) Error() string { return r.code + ": " + r.message }

func invalid(code, message string) error {
	return &refusal{status: http.StatusBadRequest, code: code, message: message}
}

var errMissing = &refusal{status: http.StatusNotFound, code: "resource_missing", message: "No such object"}

// maxBodyBytes bounds a request.
const maxBodyBytes = 16 << 10

// known turns an operation into an endpoint for the shop's key.
func (c *Company) known(do func(r *http.Request, form url.Values) (object, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
		err := r.ParseForm()
		if r.Header.Get("Authorization") != "Bearer "+c.key {
			err = &refusal{status: http.StatusUnauthorized, code: "api_key_invalid", message: "Invalid API Key provided"}
		}
		if err == nil && r.Method == http.MethodPost && !strings.HasSuffix(r.URL.Path, "/expire") && r.Header.Get("Idempotency-Key") == "" {
			err = invalid("idempotency_key_missing", "This stand-in wants each creation repeatable")
		}
		var out object
		if err == nil {
			out, err = do(r, r.Form)
		}
		status := http.StatusOK
		if err != nil {
			no := new(refusal)
			if refused, ok := errors.AsType[*sandbox.RefusalError](err); ok {
				no = &refusal{status: http.StatusBadRequest, message: refused.Message}
			} else if !errors.As(err, &no) {
				c.log.ErrorContext(r.Context(), "Stripe's stand-in failed", "error", err)
				no = &refusal{status: http.StatusInternalServerError, message: "try again"}
			}
			if no.first != "" {
				w.Header().Set("Idempotent-Replayed", "true")
				w.Header().Set("Original-Request", no.first)
			}
			status, out = no.status, object{"error": object{"type": "invalid_request_error", "code": no.code, "message": no.message}}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(out)
	}
}

// Head implements sandbox.Dialect. Each attempt is signed again: a late one must still be
// fresh.
func (c *Company) Head(h http.Header, body []byte) {
	h.Set("Content-Type", "application/json; charset=utf-8")
	head := ""
	for i, secret := range c.secrets {
		if i > 0 && !c.rolling.Load() {
			break
		}
		signed := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: body, Secret: secret, Timestamp: c.now()})
		if i == 0 {
			head = signed.Header
		} else {
			_, second, _ := strings.Cut(signed.Header, ",")
			head += "," + second
		}
	}
	h.Set(stripe.HeaderSignature, head)
}

// Acknowledged implements sandbox.Dialect.
func (c *Company) Acknowledged(r outbound.Reply) bool { return r.Status/100 == 2 }

// Callback implements sandbox.Dialect.
func (c *Company) Callback(e sandbox.Event) ([]byte, error) {
	kind, content := "checkout.session.completed", session(e.Payment)
	if e.Refund != nil {
		kind, content = "refund.updated", refunded(e.Payment.Ref, *e.Refund)
		if e.Refund.Status == sandbox.StatusFailed {
			kind = "refund.failed"
		}
	}
	if e.Dispute != nil {
		kind, content = disputed(e.Payment, *e.Dispute)
	}
	return json.Marshal(object{
		"id": "evt_" + rand.Text(), "object": "event", "api_version": "2020-08-27", "created": c.now().Unix(), "livemode": false,
		"type": kind, "data": object{"object": content},
	})
}

// counter is the company's API for one shop.
type counter struct {
	*Company
	desk sandbox.Desk
}

// The beginnings of the company's names; the rest is the bank's number.
const (
	sessionID = "cs_test_"
	intentID  = "pi_"
	refundID  = "re_"
	disputeID = "dp_"
)

func (c counter) create(r *http.Request, f url.Values) (object, error) {
	const item = "line_items[0][price_data]"
	no, currency, title := f.Get("client_reference_id"), f.Get(item+"[currency]"), f.Get(item+"[product_data][name]")
	amount, err := minor(f.Get(item+"[unit_amount]"), currency)
	if err != nil {
		return nil, invalid("parameter_invalid_integer", "Invalid integer: unit_amount")
	}
	seconds, err := strconv.ParseInt(f.Get("expires_at"), 10, 64)
	left := time.Unix(seconds, 0).Sub(c.now())
	switch {
	case err != nil:
		return nil, invalid("parameter_invalid_integer", "Invalid integer: expires_at")
	case f.Get("mode") != "payment" || f.Get("success_url") == "" || title == "":
		return nil, invalid("parameter_missing", "Missing required param")
	case no == "" || f.Get("payment_intent_data[metadata][payment_no]") != no || r.Header.Get("Idempotency-Key") != no:
		return nil, invalid("parameter_missing", "This stand-in wants the shop's number wherever it is needed")
	}
	_, had, err := c.desk.Payment(r.Context(), no)
	if err != nil {
		return nil, err
	}
	if !had && (left < 30*time.Minute || left > 24*time.Hour) {
		return nil, invalid("", "The `expires_at` timestamp must be between 30 minutes and 24 hours from Checkout Session creation.")
	}
	p, err := c.desk.Create(r.Context(), sandbox.Opening{
		PaymentNo: no, Title: title, Amount: amount, Currency: strings.ToUpper(currency), ExpiresAt: time.Unix(seconds, 0),
		NotifyURL: c.notify(f.Get("success_url")), ReturnURL: f.Get("success_url"),
	})
	return session(p), err
}

// notify is the address of the endpoint, which the shop's dashboard has at Stripe.
func (c counter) notify(successURL string) string {
	u, err := url.Parse(successURL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + "/api/v1/payments/stripe/notify"
}

// payment finds the payment that an id of the path names.
func (c counter) payment(ctx context.Context, begin, id string) (sandbox.Payment, error) {
	number, ok := strings.CutPrefix(id, begin)
	ref, err := ids.Parse(number)
	if !ok || err != nil {
		return sandbox.Payment{}, errMissing
	}
	p, had, err := c.desk.PaymentByRef(ctx, ref)
	if err == nil && !had {
		err = errMissing
	}
	return p, err
}

func (c counter) retrieve(r *http.Request, _ url.Values) (object, error) {
	p, err := c.payment(r.Context(), sessionID, chi.URLParam(r, "id"))
	return session(p), err
}

func (c counter) expire(r *http.Request, _ url.Values) (object, error) {
	p, err := c.payment(r.Context(), sessionID, chi.URLParam(r, "id"))
	if err == nil && p.Status == sandbox.StatusOpen {
		p, err = c.desk.Close(r.Context(), p.No)
		if err == nil && p.Status == sandbox.StatusClosed {
			return session(p), nil
		}
	}
	if err == nil {
		err = invalid("", `Only Checkout Sessions with a status in ["open"] can be expired.`)
	}
	return nil, err
}

// list is a page of the sessions since a time.
func (c counter) list(r *http.Request, f url.Values) (object, error) {
	since, _ := strconv.ParseInt(f.Get("created[gte]"), 10, 64)
	limit, _ := strconv.ParseInt(f.Get("limit"), 10, 32)
	before := ids.ID{0: 0xff}
	if after := f.Get("starting_after"); after != "" {
		var err error
		if before, err = ids.Parse(strings.TrimPrefix(after, sessionID)); err != nil {
			return nil, errMissing
		}
	}
	rows, err := c.desk.Opened(r.Context(), time.Unix(since, 0), before, int32(limit)+1) //nolint:gosec // parsed as 32 bits
	list := []object{}
	for _, p := range rows[:min(len(rows), int(limit))] {
		list = append(list, session(p))
	}
	return listed(r, list, len(rows) > int(limit)), err
}

// listed is a page of a list.
func listed(r *http.Request, data []object, more bool) object {
	return object{"object": "list", "has_more": more, "data": data, "url": strings.TrimPrefix(r.URL.Path, Prefix)}
}

func (c counter) intent(r *http.Request, _ url.Values) (object, error) {
	p, err := c.payment(r.Context(), intentID, chi.URLParam(r, "id"))
	if err == nil && p.Status != sandbox.StatusCaptured {
		err = errMissing
	}
	return intent(p), err
}

func (c counter) refunds(r *http.Request, f url.Values) (object, error) {
	p, err := c.payment(r.Context(), intentID, f.Get("payment_intent"))
	if err != nil {
		return nil, err
	}
	rows, err := c.desk.RefundsOf(r.Context(), p, 100) // Stripe's page
	list := []object{}
	for _, made := range rows {
		list = append(list, refunded(p.Ref, made))
	}
	return listed(r, list, false), err
}

// refund keeps a refusal for its key: the next request under that gets it again.
func (c counter) refund(r *http.Request, f url.Values) (object, error) {
	key := r.Header.Get("Idempotency-Key")
	if no, ok := c.refused.Load(key); ok {
		return nil, no.(*refusal) //nolint:forcetypeassert,errcheck // all are
	}
	out, err := c.makeRefund(r, f)
	if no, ok := errors.AsType[*refusal](err); ok {
		c.refused.Store(key, &refusal{no.status, no.code, no.message, "req_" + rand.Text()})
	}
	return out, err
}

func (c counter) makeRefund(r *http.Request, f url.Values) (object, error) {
	p, err := c.payment(r.Context(), intentID, f.Get("payment_intent"))
	if err != nil {
		return nil, err
	}
	amount, err := minor(f.Get("amount"), p.Currency)
	no := f.Get("metadata[refund_no]")
	switch {
	case err != nil:
		return nil, invalid("parameter_invalid_integer", "Invalid integer: amount")
	case !strings.HasPrefix(r.Header.Get("Idempotency-Key"), no) || f.Get("metadata[payment_no]") != p.No:
		return nil, invalid("parameter_missing", "This stand-in wants the shop's number wherever it is needed")
	case c.broke.Load():
		return nil, invalid("balance_insufficient", "Insufficient funds in your Stripe balance to refund this amount.")
	case amount > p.Captured-p.Refunded:
		if _, repeated, err := c.desk.RefundOf(r.Context(), no); err != nil || !repeated {
			return nil, errors.Join(err, invalid("charge_already_refunded", "Refund amount is greater than unrefunded amount on charge"))
		}
	}
	made, err := c.desk.Refund(r.Context(), sandbox.Repayment{
		RefundNo: no, PaymentNo: p.No, Transaction: p.Transaction, Amount: amount, Currency: p.Currency, NotifyURL: p.NotifyURL,
	})
	return refunded(p.Ref, made), err
}

// minor reads an amount that the company takes, and units writes one.
func minor(text, currency string) (int64, error) {
	said, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, err
	}
	currency = strings.ToUpper(currency)
	amount, err := stripe.Minor(said, currency)
	if err == nil {
		_, err = stripe.Units(amount, currency)
	}
	return amount, err
}

func units(amount int64, currency string) int64 {
	if u, err := stripe.Units(amount, currency); err == nil {
		return u
	}
	return amount // an amount that the bank changed by one
}

// session is a payment in the company's form.
func session(p sandbox.Payment) object {
	o := object{
		"id": sessionID + p.Ref.String(), "object": "checkout.session", "mode": "payment", "livemode": false, "client_reference_id": p.No,
		"metadata": object{stripe.MetaPayment: p.No}, "amount_total": units(p.Amount, p.Currency), "currency": strings.ToLower(p.Currency), "expires_at": p.ExpiresAt.Unix(),
		"status": "open", "payment_status": "unpaid", "payment_intent": nil, "url": p.PayURL,
	}
	switch p.Status {
	case sandbox.StatusClosed:
		o["status"], o["url"] = "expired", nil
	case sandbox.StatusCaptured:
		o["status"], o["url"], o["payment_status"], o["amount_total"], o["payment_intent"] = "complete", nil, "paid", units(p.Captured, p.Currency), intent(p)
	}
	return o
}

// intent is a payment that was captured.
func intent(p sandbox.Payment) object {
	return object{
		"id": intentID + p.Ref.String(), "object": "payment_intent", "livemode": false, "status": "succeeded", "metadata": object{stripe.MetaPayment: p.No},
		"latest_charge": charge(p),
	}
}

func charge(p sandbox.Payment) object {
	return object{
		"id": "ch_" + p.Ref.String(), "object": "charge", "created": p.At.Unix(), "amount": units(p.Captured, p.Currency), "currency": strings.ToLower(p.Currency),
		"metadata": object{stripe.MetaPayment: p.No}, "payment_intent": intentID + p.Ref.String(),
	}
}

// refunded is a refund of a payment in the company's form.
func refunded(payment ids.ID, r sandbox.Refund) object {
	status := map[string]string{sandbox.StatusProcessing: "pending", sandbox.StatusSucceeded: "succeeded", sandbox.StatusFailed: "failed"}[r.Status]
	return object{
		"id": refundID + r.Ref.String(), "object": "refund", "amount": units(r.Amount, r.Currency), "currency": strings.ToLower(r.Currency), "status": status,
		"payment_intent": intentID + payment.String(), "created": r.Ref.Time().Unix(),
		"metadata": object{stripe.MetaPayment: r.PaymentNo, stripe.MetaRefund: r.No},
	}
}
