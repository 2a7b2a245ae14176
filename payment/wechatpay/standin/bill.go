package standin

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // the company's choice
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"stampede/payment/internal/company"
	"stampede/payment/provider"
	"stampede/payment/sandbox"
	"stampede/payment/wechatpay"
)

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
