package standin

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // the company's choice
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"stampede/payment/internal/company"
	"stampede/payment/provider"
	"stampede/payment/sandbox"
	"stampede/payment/wechatpay"
)

// counter is the company's API for one merchant.
type counter struct {
	*Company
	desk sandbox.Desk
}

func (c counter) create(r *http.Request, body []byte) (any, error) {
	var in wechatpay.Prepay
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, refuse(http.StatusBadRequest, "PARAM_ERROR", err.Error())
	}
	method := provider.Method(chi.URLParam(r, "method"))
	expires, err := time.Parse(time.RFC3339, in.TimeExpire)
	bad := ""
	switch {
	case err != nil || expires.Before(c.now().Add(time.Minute)):
		bad = "time_expire is at least a minute ahead, in RFC 3339"
	case in.MchID != c.merchant || in.AppID != c.app:
		return nil, refuse(http.StatusBadRequest, "APPID_MCHID_NOT_MATCH", "the app and the merchant do not belong together")
	case len(in.Description) == 0 || len(in.Description) > 127:
		bad = "description has 1 to 127 bytes"
	case method == wechatpay.JSAPI && (in.Payer == nil || in.Payer.OpenID == ""):
		bad = "payer.openid is required"
	case method == wechatpay.H5 && (in.SceneInfo == nil || in.SceneInfo.PayerClientIP == ""):
		bad = "scene_info.payer_client_ip is required"
	}
	if bad != "" {
		return nil, refuse(http.StatusBadRequest, "PARAM_ERROR", bad)
	}
	p, err := c.desk.Create(r.Context(), sandbox.Opening{
		PaymentNo: in.OutTradeNo, Title: in.Description, Amount: in.Amount.Total, Currency: in.Amount.Currency, ExpiresAt: expires, NotifyURL: in.NotifyURL,
	})
	if err != nil {
		return nil, err
	}
	switch p.Status {
	case sandbox.StatusCaptured:
		return nil, refuse(http.StatusBadRequest, "ORDERPAID", "the order is paid")
	case sandbox.StatusClosed:
		return nil, refuse(http.StatusBadRequest, "ORDER_CLOSED", "the order is closed")
	}
	switch method {
	case wechatpay.Native:
		return wechatpay.Prepaid{CodeURL: p.PayURL}, nil
	case wechatpay.H5:
		return wechatpay.Prepaid{H5URL: p.PayURL}, nil
	case wechatpay.JSAPI:
		return wechatpay.Prepaid{PrepayID: "wx" + p.Ref.String()}, nil
	default:
		return nil, refuse(http.StatusNotFound, "PARAM_ERROR", "there is no such method")
	}
}

func (c counter) query(r *http.Request, _ []byte) (any, error) {
	p, err := c.payment(r)
	return c.transaction(p), err
}

// payment finds the payment of a request.
func (c counter) payment(r *http.Request) (sandbox.Payment, error) {
	p, known, err := c.desk.Payment(r.Context(), chi.URLParam(r, "no"))
	if err == nil && !known {
		err = refuse(http.StatusNotFound, "ORDER_NOT_EXIST", "there is no such order")
	}
	return p, err
}

func (c counter) close(r *http.Request, _ []byte) (any, error) {
	p, err := c.payment(r)
	was := p.Status
	if err == nil && was == sandbox.StatusOpen {
		p, err = c.desk.Close(r.Context(), p.No)
	}
	if err == nil && (p.Status == sandbox.StatusCaptured || was == sandbox.StatusClosed) {
		err = refuse(http.StatusForbidden, "TRADE_ERROR", "the order is not open")
	}
	return nil, err
}

func (c counter) refund(r *http.Request, body []byte) (any, error) {
	var in wechatpay.RefundRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, refuse(http.StatusBadRequest, "PARAM_ERROR", err.Error())
	}
	p, known, err := c.desk.Payment(r.Context(), in.OutTradeNo)
	switch {
	case err != nil:
		return nil, err
	case !known || p.Status != sandbox.StatusCaptured:
		return nil, refuse(http.StatusNotFound, "RESOURCE_NOT_EXISTS", "there is no such payment")
	case in.Amount.Total != p.Captured:
		return nil, refuse(http.StatusBadRequest, "INVALID_REQUEST", "amount.total is not what was paid")
	}
	back, err := c.desk.Refund(r.Context(), sandbox.Repayment{
		RefundNo: in.OutRefundNo, PaymentNo: in.OutTradeNo, Transaction: p.Transaction, Amount: in.Amount.Refund, Currency: in.Amount.Currency,
		NotifyURL: in.NotifyURL,
	})
	if err != nil {
		return nil, err
	}
	return c.refunded(p, back), nil
}

// transaction is a payment in the company's form.
func (c *Company) transaction(p sandbox.Payment) wechatpay.Transaction {
	t := wechatpay.Transaction{MchID: c.merchant, AppID: c.app, OutTradeNo: p.No, TradeState: wechatpay.TradeNotPay}
	switch p.Status {
	case sandbox.StatusClosed:
		t.TradeState = wechatpay.TradeClosed
	case sandbox.StatusCaptured:
		t.TradeState, t.TransactionID, t.SuccessTime = wechatpay.TradeSuccess, number(p.Transaction), p.At
		t.Amount = wechatpay.Amount{Total: p.Captured, Currency: p.Currency}
		if p.Refunded > 0 {
			t.TradeState = wechatpay.TradeRefund
		}
	}
	return t
}

// refunded is a refund in the company's form.
func (c *Company) refunded(p sandbox.Payment, r sandbox.Refund) wechatpay.RefundResult {
	out := wechatpay.RefundResult{
		OutTradeNo: r.PaymentNo, TransactionID: number(p.Transaction), OutRefundNo: r.No, RefundID: "50" + r.Ref.String(),
		Status: wechatpay.RefundProcessing, Amount: wechatpay.Amount{Refund: r.Amount, Total: p.Captured, Currency: r.Currency},
	}
	switch r.Status {
	case sandbox.StatusSucceeded:
		out.Status, out.SuccessTime = wechatpay.RefundSuccess, r.At
	case sandbox.StatusFailed:
		out.Status = wechatpay.RefundAbnormal
	}
	return out
}

// number is a transaction's number in the company's form.
func number(transaction string) string { return "42" + strings.TrimPrefix(transaction, "sb-") }

const billPath = "/v3/billdownload/file"

// bill says where a bill is.
func (c counter) bill(r *http.Request, _ []byte) (any, error) {
	date, kind := r.FormValue("bill_date"), r.FormValue("bill_type")
	text, err := c.billOf(r.Context(), date, kind)
	if err != nil {
		return nil, err
	}
	sum := sha1.Sum(text) //nolint:gosec // as above
	return wechatpay.BillAddress{
		HashType: "SHA1", HashValue: hex.EncodeToString(sum[:]), DownloadURL: "http://" + r.Host + Prefix + billPath + "?token=" + date + kind,
	}, nil
}

// download sends a bill, without a signature as the company does.
func (c counter) download(w http.ResponseWriter, r *http.Request) {
	token := r.FormValue("token")
	if err := c.authorized(r, nil); err != nil || len(token) < len(time.DateOnly) {
		http.Error(w, "SIGN_ERROR", http.StatusUnauthorized)
		return
	}
	text, err := c.billOf(r.Context(), token[:len(time.DateOnly)], token[len(time.DateOnly):])
	if err != nil {
		http.Error(w, "SYSTEM_ERROR", http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(text)
}

// billOf writes a bill. As there, a day without movements has none.
func (c counter) billOf(ctx context.Context, date, kind string) ([]byte, error) {
	from, err := time.ParseInLocation(time.DateOnly, date, company.China)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "PARAM_ERROR", "bill_date is a day")
	}
	var out bytes.Buffer
	out.WriteString("\ufeff交易时间,公众账号ID,商户号,微信订单号,商户订单号,交易状态,货币种类,应结订单金额,微信退款单号,商户退款单号,退款金额,退款状态,商品名称,手续费,订单金额,申请退款金额")
	if kind == wechatpay.BillRefund {
		out.WriteString(",退款申请时间,退款成功时间")
	}
	out.WriteString("\r\n")
	n := 0
	for m, err := range c.desk.Day(ctx, provider.Day{From: from, To: from.AddDate(0, 0, 1)}) {
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "STATEMENT_CREATING", "the bill is being made")
		}
		if refunded := m.RefundNo != ""; refunded == (kind == wechatpay.BillRefund) {
			n++
			c.row(&out, m)
		}
	}
	if n == 0 {
		return nil, refuse(http.StatusBadRequest, "NO_STATEMENT_EXIST", "there is no bill")
	}
	fmt.Fprintf(&out, "总交易单数,应结订单总金额,退款总金额\r\n`%d,`0.00,`0.00\r\n", n)
	return out.Bytes(), nil
}

// row writes a movement.
func (c counter) row(out *bytes.Buffer, m sandbox.Movement) {
	at, yuan := m.At.In(company.China).Format(time.DateTime), company.Yuan(m.Amount)
	state, refundID, refundState, paid, back := "SUCCESS", "", "", yuan, "0.00"
	if m.RefundNo != "" {
		state, refundID, refundState, paid, back = "REFUND", "50"+m.Ref.String(), wechatpay.RefundSuccess, "0.00", yuan
	}
	fmt.Fprintf(out, "`%s,`%s,`%s,`%s,`%s,`%s,`%s,`%s,`%s,`%s,`%s,`%s,`%s,`%s,`%s,`%s",
		at, c.app, c.merchant, number(m.Transaction), m.PaymentNo, state, m.Currency, paid, refundID, m.RefundNo, back, refundState,
		"限量版, 红色", "0.00600", paid, back)
	if m.RefundNo != "" {
		fmt.Fprintf(out, ",`%s,`%s", at, at)
	}
	out.WriteString("\r\n")
}
