package sandbox

import (
	"bytes"
	"crypto/rand"
	_ "embed" // the page
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/text/language"

	"stampede/payment/sandbox/internal/sandboxdb"
	"stampede/platform/base/currency"
	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
)

//go:embed page.html
var pageSource string

var pageTemplate = template.Must(template.New("pay").Parse(pageSource))

// words are the page's texts in one language.
type words struct {
	Lang, Other, OtherName                         string
	Title, Sandbox, Merchant, Item, Number, Amount string
	Left, Pay, Fail, Paid, Closed, Failed, Missing string
	Away                                           string
	Back, Way, Seconds, AsCreated                  string
	Behaviours                                     map[Behaviour]string
}

var pageWords = map[httpx.Language]words{
	httpx.English: {
		Lang: "en", Other: "zh", OtherName: "中文", Title: "Sandbox bank", Sandbox: "For testing only: no real money moves.",
		Merchant: "Merchant", Item: "For", Number: "Payment", Amount: "Amount", Left: "Time left", Pay: "Pay", Fail: "Fail",
		Paid: "Paid. The shop is being notified.", Closed: "This payment is closed. Nothing was charged.",
		Failed: "The payment failed. Nothing was charged; you may try again.", Missing: "There is no such payment.", Away: "The bank cannot be reached at the moment. Reload this page in a few seconds to see whether the payment was made.", Back: "Back to the shop", Way: "Practise a fault", Seconds: "Seconds", AsCreated: "none",
		Behaviours: map[Behaviour]string{
			Normal: "everything as it should be", Duplicate: "the shop is told twice", WrongAmount: "the callback states another amount", Underpaid: "too little is taken",
			Late: "the shop is told so many seconds later", Never: "the shop is never told", Silent: "no word and no answer for so many seconds",
			RefundFails: "a refund fails", RefundBounces: "a refund comes back after so many seconds",
			ChargebackWon: "a chargeback after so many seconds, which the shop wins", ChargebackLost: "a chargeback after so many seconds, which the shop loses",
		},
	},
	httpx.Chinese: {
		Lang: "zh", Other: "en", OtherName: "English", Title: "沙箱银行", Sandbox: "仅供测试，不会产生真实扣款。",
		Merchant: "商户", Item: "商品", Number: "支付单号", Amount: "金额", Left: "剩余时间", Pay: "付款", Fail: "模拟失败",
		Paid: "付款成功，正在通知商户。", Closed: "该支付单已关闭，未扣款。", Failed: "付款失败，未扣款，可以重试。",
		Missing: "没有这笔支付单。", Away: "银行系统暂时无法访问，请过几秒刷新本页查看是否已付款。", Back: "返回商户", Way: "模拟故障", Seconds: "秒数", AsCreated: "无",
		Behaviours: map[Behaviour]string{
			Normal: "一切正常", Duplicate: "重复通知商户", WrongAmount: "通知金额不符", Underpaid: "实际少扣款", Late: "延迟指定秒数后通知", Never: "从不通知",
			Silent: "指定秒数内不通知也不应答", RefundFails: "退款失败", RefundBounces: "退款成功后指定秒数被退回",
			ChargebackWon: "指定秒数后拒付，商户胜诉", ChargebackLost: "指定秒数后拒付，商户败诉",
		},
	},
}

// page is the template's data.
type page struct {
	words
	Nonce            string // of the one inline script
	State            string // open, captured, closed, missing, away
	FailedBefore     bool
	MerchantName     string
	Faults           []Behaviour
	What             string
	PaymentNo        string
	Money            string
	LeftMillis       int64
	LeftText         string
	Action, OtherURL string
	ReturnURL        string
}

// showPage is GET /sandbox-bank/pay/{ref}?t=…[&lang=zh|en]. It works without
// the script, which only updates the countdown.
func (b *Bank) showPage(w http.ResponseWriter, r *http.Request) {
	var p sandboxdb.SandboxPayment
	ref, err := b.refOf(r)
	if err == nil {
		p, err = b.payment(r.Context(), ref)
	}
	if no, ok := errors.AsType[*RefusalError](err); ok {
		b.showNothing(w, r, no.Status)
		return
	}
	now := time.Now()
	if err == nil {
		// The database's clock decides, so the countdown follows it and not this
		// process's clock.
		now, err = b.q.Clock(r.Context())
	}
	if err != nil {
		b.showNothing(w, r, failed(w, r, b.log, "page", err).Status)
		return
	}
	lang := pageLanguage(r)
	q := r.URL.Query()
	q.Set("lang", pageWords[lang].Lang)
	action := r.URL.Path + "?" + q.Encode()
	q.Set("lang", pageWords[lang].Other)
	left := max(p.ExpiresAt.Sub(now), 0)
	merchant := merchantName
	if d := b.dialects[p.Merchant]; d != nil && d.Company() != "" {
		merchant += " · " + d.Company() + " " + p.Merchant
	}
	b.render(w, r, http.StatusOK, page{
		words: pageWords[lang], State: p.Status, FailedBefore: q.Get("failed") != "", MerchantName: merchant, Faults: behaviours,
		What: p.Title, PaymentNo: p.PaymentNo, Money: currency.Write(p.Amount, p.Currency, language.Make(pageWords[lang].Lang)), LeftMillis: left.Milliseconds(),
		LeftText: fmt.Sprintf("%d:%02d", int(left.Minutes()), int(left.Seconds())%60), //nolint:mnd // minutes and seconds
		Action:   action, OtherURL: r.URL.Path + "?" + q.Encode(), ReturnURL: p.ReturnUrl,
	})
}

// showNothing is the page for an address without a payment, or with one that cannot be
// read.
func (b *Bank) showNothing(w http.ResponseWriter, r *http.Request, status int) {
	state := statusMissing
	if status >= http.StatusInternalServerError {
		state = "away"
	}
	b.render(w, r, status, page{words: pageWords[pageLanguage(r)], State: state})
}

// failed is the answer to an error that is no refusal. With the database away the
// client retries.
func failed(w http.ResponseWriter, r *http.Request, log *slog.Logger, operation string, err error) *RefusalError {
	if f := fault.From(httpx.Unreachable(fault.T("The bank", "银行"), err)); f.Kind == fault.Unavailable {
		log.WarnContext(r.Context(), "sandbox bank unreachable", "operation", operation, "error", err)
		w.Header().Set("Retry-After", "1")
		return &RefusalError{http.StatusServiceUnavailable, "unavailable", "the bank cannot be reached; try again in a moment"}
	}
	log.ErrorContext(r.Context(), "sandbox bank failed", "operation", operation, "error", err)
	return &RefusalError{http.StatusInternalServerError, "internal", "try again"}
}

// render writes the page completely or not at all.
func (b *Bank) render(w http.ResponseWriter, r *http.Request, status int, p page) {
	p.Nonce = rand.Text()
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

func pageLanguage(r *http.Request) httpx.Language {
	switch r.URL.Query().Get("lang") {
	case "zh":
		return httpx.Chinese
	case "en":
		return httpx.English
	default:
		return httpx.LanguageOf(r.Header.Get("Accept-Language"))
	}
}
