// Package standin is Alipay for practice and tests: its gateway in front of the sandbox
// bank's books, with signatures by keys of its own.
package standin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"stampede/payment/alipay"
	"stampede/payment/internal/company"
	"stampede/payment/internal/rsakey"
	"stampede/payment/sandbox"
	"stampede/platform/edge/outbound"
)

// Gateway is the path of the company's gateway.
const Gateway = sandbox.Prefix + "/alipay/gateway.do"

// Company is the stand-in. Safe for concurrent use.
type Company struct {
	app, seller string
	url         string          // of the company
	shop        *rsa.PublicKey  // the app's key
	key         *rsa.PrivateKey // the company's
	now         func() time.Time
	log         *slog.Logger
}

var _ sandbox.Dialect = (*Company)(nil)

// Pair makes the keys of a shop and of a company that know each other, for a client and
// shoppers at url.
func Pair(url string, now func() time.Time, log *slog.Logger) (*Company, alipay.Config) {
	shop, own := rsakey.Generate(), rsakey.Generate()
	c := &Company{app: "2021000000practice", seller: "2088000000practice", url: url, shop: &shop.PublicKey, key: own, now: now, log: log}
	return c, alipay.Config{App: c.app, Seller: c.seller, Key: shop, Peer: &own.PublicKey, URL: url + Gateway}
}

// Account implements sandbox.Dialect.
func (c *Company) Account() sandbox.Account {
	return sandbox.Account{Merchant: c.seller, Company: "Alipay"}
}

// Routes implements sandbox.Dialect.
func (c *Company) Routes(mux chi.Router, desk sandbox.Desk) {
	mux.Get(Gateway, func(w http.ResponseWriter, r *http.Request) { c.open(w, r, desk) })
	mux.Post(Gateway, func(w http.ResponseWriter, r *http.Request) { c.answer(w, r, desk) })
	mux.Get(billPath, func(w http.ResponseWriter, r *http.Request) { c.download(w, r, desk) })
}

// refusal is a reply with a sub_code.
type refusal struct{ code, message string }

func (r *refusal) Error() string { return r.code + ": " + r.message }

// request verifies a request's parameters.
func (c *Company) request(p url.Values) (biz alipay.Biz, err error) {
	if p.Get("app_id") != c.app || p.Get("sign_type") != "RSA2" || alipay.Verify(c.shop, p) != nil {
		return biz, errors.New("the signature is wrong")
	}
	err = json.Unmarshal([]byte(p.Get("biz_content")), &biz)
	return biz, err
}

// open is what a shopper's browser asks for: the payment comes to be, and the bank's
// page shows it.
func (c *Company) open(w http.ResponseWriter, r *http.Request, desk sandbox.Desk) {
	p := r.URL.Query()
	biz, err := c.request(p)
	if method := p.Get("method"); err == nil && method != alipay.MethodPage && method != alipay.MethodWap {
		err = errors.New("the method is not one of a browser")
	}
	var fen int64
	var expires time.Time
	if err == nil {
		fen, err = company.ParseYuan(biz.TotalAmount)
	}
	if err == nil {
		expires, err = alipay.ParseTime(biz.TimeExpire)
	}
	if err != nil {
		http.Error(w, "invalid-signature or parameters: "+err.Error(), http.StatusBadRequest)
		return
	}
	pay, err := desk.Create(r.Context(), sandbox.Opening{
		PaymentNo: biz.OutTradeNo, Title: biz.Subject, Amount: fen, Currency: "CNY", ExpiresAt: expires,
		NotifyURL: p.Get("notify_url"), ReturnURL: p.Get("return_url"),
	})
	if err == nil && pay.PayURL == "" {
		err = errors.New("the trade is " + pay.Status)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	http.Redirect(w, r, pay.PayURL, http.StatusFound)
}

// maxBodyBytes bounds a request.
const maxBodyBytes = 16 << 10

// answer is the gateway of the shop's server.
func (c *Company) answer(w http.ResponseWriter, r *http.Request, desk sandbox.Desk) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	method := r.PostForm.Get("method")
	biz, err := c.request(r.PostForm)
	out := alipay.Reply{Code: "40002", Msg: "Invalid Arguments", SubCode: "isv.invalid-signature"}
	if err == nil {
		out, err = c.do(r.Context(), desk, method, biz)
		no := new(refusal)
		switch {
		case err == nil:
			out.Code, out.Msg = alipay.CodeOK, "Success"
		case errors.As(err, &no):
			out = alipay.Reply{Code: alipay.CodeFailed, Msg: "Business Failed", SubCode: no.code, SubMsg: no.message}
		default:
			c.log.ErrorContext(r.Context(), "Alipay's stand-in failed", "error", err)
			out = alipay.Reply{Code: "20000", Msg: "Service Currently Unavailable", SubCode: "isp.unknow-error"}
		}
	}
	text, err := alipay.SignReply(c.key, method, out)
	if err != nil {
		panic("standin: sign: " + err.Error()) // the key is ours
	}
	w.Header().Set("Content-Type", "text/html;charset=utf-8") // as the company's gateway states
	_, _ = w.Write(text)                                      //nolint:gosec // signed JSON for the shop's server
}

// do performs one operation.
func (c *Company) do(ctx context.Context, desk sandbox.Desk, method string, biz alipay.Biz) (out alipay.Reply, err error) {
	if method == alipay.MethodBill {
		return c.bill(ctx, desk, biz)
	}
	p, known, err := desk.Payment(ctx, biz.OutTradeNo)
	if err != nil {
		return out, err
	}
	if !known {
		return out, &refusal{"ACQ.TRADE_NOT_EXIST", "there is no such trade"}
	}
	switch method {
	case alipay.MethodQuery:
		return trade(p), nil
	case alipay.MethodClose:
		if p.Status == sandbox.StatusOpen {
			if p, err = desk.Close(ctx, p.No); err == nil && p.Status == sandbox.StatusClosed {
				return alipay.Reply{OutTradeNo: p.No}, nil
			}
		}
		return out, cmp.Or[error](err, &refusal{"ACQ.REASON_ILLEGAL_STATUS", "the trade is " + p.Status})
	case alipay.MethodRefund:
		return c.refund(ctx, desk, p, biz)
	case alipay.MethodRefundQuery:
		r, known, err := desk.RefundOf(ctx, biz.OutRequestNo)
		if err != nil || !known || r.Status != sandbox.StatusSucceeded {
			return out, err
		}
		return alipay.Reply{
			OutTradeNo: r.PaymentNo, OutRequestNo: r.No, TradeNo: number(p.Transaction), RefundStatus: alipay.RefundSuccess,
			RefundAmount: company.Yuan(r.Amount), GmtRefundPay: alipay.Time(r.At),
		}, nil
	default:
		return out, &refusal{"isv.invalid-method", "there is no such method"}
	}
}

func (c *Company) refund(ctx context.Context, desk sandbox.Desk, p sandbox.Payment, biz alipay.Biz) (out alipay.Reply, err error) {
	fen, err := company.ParseYuan(biz.RefundAmount)
	if err != nil {
		return out, &refusal{"ACQ.INVALID_PARAMETER", err.Error()}
	}
	made, repeated, err := desk.RefundOf(ctx, biz.OutRequestNo)
	switch {
	case err != nil:
		return out, err
	case p.Status != sandbox.StatusCaptured:
		return out, &refusal{"ACQ.TRADE_STATUS_ERROR", "the trade is " + p.Status}
	case p.Refunded == p.Captured && (!repeated || made.Status == sandbox.StatusSucceeded): // also for the refund that has closed the trade
		return out, &refusal{"ACQ.TRADE_HAS_CLOSE", "the trade is closed"}
	}
	_, err = desk.Refund(ctx, sandbox.Repayment{
		RefundNo: biz.OutRequestNo, PaymentNo: p.No, Transaction: p.Transaction, Amount: fen, Currency: p.Currency,
		NotifyURL: p.NotifyURL,
	})
	if no, ok := errors.AsType[*sandbox.RefusalError](err); ok {
		return out, &refusal{"ACQ.REFUND_AMT_NOT_EQUAL_TOTAL", no.Message}
	}
	out = trade(p)
	out.FundChange = "Y"
	if repeated {
		out.FundChange = "N"
	}
	return out, err
}

// trade is a payment in the company's form.
func trade(p sandbox.Payment) alipay.Reply {
	r := alipay.Reply{OutTradeNo: p.No, TradeStatus: status(p), TotalAmount: company.Yuan(p.Amount)}
	if p.Status == sandbox.StatusCaptured {
		r.TradeNo, r.TotalAmount, r.SendPayDate = number(p.Transaction), company.Yuan(p.Captured), alipay.Time(p.At)
	}
	return r
}

func status(p sandbox.Payment) string {
	switch {
	case p.Status == sandbox.StatusOpen:
		return alipay.TradeWaits
	case p.Status == sandbox.StatusCaptured && p.Refunded < p.Captured:
		return alipay.TradeSuccess
	default: // also one that is refunded in full
		return alipay.TradeClosed
	}
}

// number is a trade's number in the company's form.
func number(transaction string) string { return "2026" + strings.TrimPrefix(transaction, "sb-") }

// Callback implements sandbox.Dialect. It is signed when it is written: the company
// repeats the same message.
func (c *Company) Callback(e sandbox.Event) ([]byte, error) {
	if e.Dispute != nil {
		return nil, nil
	}
	p := url.Values{
		"notify_time": {alipay.Time(c.now())}, "notify_type": {"trade_status_sync"}, "notify_id": {rand.Text()}, "app_id": {c.app},
		"charset": {"utf-8"}, "version": {"1.0"}, "sign_type": {"RSA2"}, "seller_id": {c.seller}, "out_trade_no": {e.Payment.No},
		"trade_no": {number(e.Payment.Transaction)}, "trade_status": {status(e.Payment)}, "total_amount": {company.Yuan(e.Payment.Captured)},
		"gmt_payment": {alipay.Time(e.Payment.At)}, "subject": {"限量版 & more = 100%"},
	}
	if r := e.Refund; r != nil {
		p.Set("out_biz_no", r.No)
		p.Set("refund_fee", company.Yuan(e.Payment.Refunded))
		p.Set("gmt_refund", alipay.Time(r.At))
	}
	err := alipay.Sign(c.key, p)
	return []byte(p.Encode()), err
}

// Head implements sandbox.Dialect.
func (c *Company) Head(h http.Header, _ []byte) {
	h.Set("Content-Type", "application/x-www-form-urlencoded;charset=utf-8")
}

// Acknowledged implements sandbox.Dialect.
func (c *Company) Acknowledged(r outbound.Reply) bool { return bytes.Equal(r.Body, []byte("success")) }
