package sandbox

import (
	"bytes"
	"crypto/rand"
	_ "embed" // the page
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"golang.org/x/text/language"

	"stampede/payment/sandbox/internal/sandboxdb"
	"stampede/platform/base/currency"
	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
)

//go:embed page.html
var pageSource string

var pageTemplate = template.Must(template.New("pay").Parse(pageSource))

// page is the template's data.
type page struct {
	Lang         httpx.Language
	Nonce        string // of the one inline script
	State        string // open, captured, closed, missing, away
	FailedBefore bool
	MerchantName string
	What         string
	PaymentNo    string
	Money        string
	LeftMillis   int64
	LeftText     string
	Action       string
	ReturnURL    string
}

// T is a text in the page's language.
func (p page) T(english, chinese string) string { return fault.Text{english, chinese}[p.Lang] }

// Faults are the ways in which a shopper may have the bank misbehave.
func (page) Faults() []misbehaviour { return behaviours }

// showPage is GET /sandbox-bank/pay/{ref}?t=…, in the language of the browser. It works without
// the script, which only updates the countdown.
func (b *Bank) showPage(w http.ResponseWriter, r *http.Request) {
	var p sandboxdb.SandboxPayment
	ref, err := b.refOf(r)
	if err == nil {
		p, err = b.payment(r.Context(), ref)
	}
	var now time.Time
	if err == nil {
		// The database's clock decides, so the countdown follows it and not this
		// process's clock.
		now, err = pg.Now(r.Context(), b.db)
	}
	if err != nil {
		b.showNothing(w, r, b.refusal(w, r, "page", err).Status)
		return
	}
	left := max(p.ExpiresAt.Sub(now), 0)
	merchant := merchantName
	if d := b.dialects[p.Merchant]; d != nil && d.Account().Company != "" {
		merchant += " · " + d.Account().Company + " " + p.Merchant
	}
	lang := language.Make(fault.Text{"en", "zh"}[httpx.LanguageOf(r.Header.Get("Accept-Language"))])
	b.render(w, r, http.StatusOK, page{
		State: p.Status, FailedBefore: r.URL.Query().Get("failed") != "", MerchantName: merchant, What: p.Title, PaymentNo: p.PaymentNo,
		Money: currency.Write(p.Amount, p.Currency, lang), LeftMillis: left.Milliseconds(),
		LeftText: fmt.Sprintf("%d:%02d", int(left.Minutes()), int(left.Seconds())%60),
		Action:   r.URL.RequestURI(), ReturnURL: p.ReturnUrl,
	})
}

// showNothing is the page for an address without a payment, or with one that cannot be
// read.
func (b *Bank) showNothing(w http.ResponseWriter, r *http.Request, status int) {
	state := statusMissing
	if status >= http.StatusInternalServerError {
		state = "away"
	}
	b.render(w, r, status, page{State: state})
}

// refusal is the answer to an error: itself, if it is a refusal. With the database away the
// client retries.
func (b *Bank) refusal(w http.ResponseWriter, r *http.Request, operation string, err error) *RefusalError {
	if no, ok := errors.AsType[*RefusalError](err); ok {
		return no
	}
	if f := fault.From(httpx.Unreachable(fault.T("The bank", "银行"), err)); f.Kind == fault.Unavailable {
		b.log.WarnContext(r.Context(), "sandbox bank unreachable", "operation", operation, "error", err)
		w.Header().Set("Retry-After", "1")
		return &RefusalError{http.StatusServiceUnavailable, "unavailable", "the bank cannot be reached; try again in a moment"}
	}
	b.log.ErrorContext(r.Context(), "sandbox bank failed", "operation", operation, "error", err)
	return &RefusalError{http.StatusInternalServerError, "internal", "try again"}
}

// render writes the page completely or not at all.
func (b *Bank) render(w http.ResponseWriter, r *http.Request, status int, p page) {
	p.Nonce, p.Lang = rand.Text(), httpx.LanguageOf(r.Header.Get("Accept-Language"))
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, p); err != nil {
		b.log.ErrorContext(r.Context(), "sandbox bank could not render its page", "error", err)
		http.Error(w, "500", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept-Language")
	// The page loads nothing else; the nonce allows its one script and no other.
	h.Set("Content-Security-Policy", "default-src 'none'; img-src data:; style-src 'nonce-"+p.Nonce+"'; script-src 'nonce-"+p.Nonce+
		"'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer") // the URL gives access to the payment
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes())
}
