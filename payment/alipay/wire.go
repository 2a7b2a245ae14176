package alipay

import (
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"stampede/payment/internal/company"
	"stampede/payment/internal/rsakey"
)

// The methods of the gateway.
const (
	MethodPage        = "alipay.trade.page.pay"
	MethodWap         = "alipay.trade.wap.pay"
	MethodQuery       = "alipay.trade.query"
	MethodClose       = "alipay.trade.close"
	MethodRefund      = "alipay.trade.refund"
	MethodRefundQuery = "alipay.trade.fastpay.refund.query"
	MethodBill        = "alipay.data.dataservice.bill.downloadurl.query"
)

// The states of a trade.
const (
	TradeWaits    = "WAIT_BUYER_PAY"
	TradeSuccess  = "TRADE_SUCCESS"
	TradeFinished = "TRADE_FINISHED" // no refund is possible any more
	TradeClosed   = "TRADE_CLOSED"
)

// RefundSuccess is the state of a refund that was made.
const RefundSuccess = "REFUND_SUCCESS"

// The codes of a reply.
const (
	CodeOK     = "10000"
	CodeFailed = "40004" // sub_code says why
)

// Biz is the content of a request.
type Biz struct {
	OutTradeNo   string   `json:"out_trade_no,omitempty"`
	TotalAmount  string   `json:"total_amount,omitempty"`
	Subject      string   `json:"subject,omitempty"`
	ProductCode  string   `json:"product_code,omitempty"`
	TimeExpire   string   `json:"time_expire,omitempty"`
	RefundAmount string   `json:"refund_amount,omitempty"`
	OutRequestNo string   `json:"out_request_no,omitempty"`
	RefundReason string   `json:"refund_reason,omitempty"`
	QueryOptions []string `json:"query_options,omitempty"`
	BillType     string   `json:"bill_type,omitempty"`
	BillDate     string   `json:"bill_date,omitempty"`
	Secure       string   `json:"secure,omitempty"` // "true": the link to the bill is https
}

// Reply is the object of a reply, for every method.
type Reply struct {
	Code         string `json:"code"`
	Msg          string `json:"msg"`
	SubCode      string `json:"sub_code,omitempty"`
	SubMsg       string `json:"sub_msg,omitempty"`
	TradeNo      string `json:"trade_no,omitempty"`
	OutTradeNo   string `json:"out_trade_no,omitempty"`
	TradeStatus  string `json:"trade_status,omitempty"`
	TotalAmount  string `json:"total_amount,omitempty"`
	SendPayDate  string `json:"send_pay_date,omitempty"`
	OutRequestNo string `json:"out_request_no,omitempty"`
	RefundStatus string `json:"refund_status,omitempty"`
	RefundAmount string `json:"refund_amount,omitempty"`
	GmtRefundPay string `json:"gmt_refund_pay,omitempty"`
	FundChange   string `json:"fund_change,omitempty"`

	BillDownloadURL string `json:"bill_download_url,omitempty"`
}

// ReplyName is the name of a method's object in its reply.
func ReplyName(method string) string { return strings.ReplaceAll(method, ".", "_") + "_response" }

// Sign adds the signature of a request, or of a callback if it has a notify_id.
func Sign(key *rsa.PrivateKey, p url.Values) error {
	signature, err := rsakey.Sign(key, signedText(p))
	p.Set("sign", signature)
	return err
}

// Verify checks what Sign has signed.
func Verify(key *rsa.PublicKey, p url.Values) error {
	for name, values := range p {
		if len(values) != 1 {
			return fmt.Errorf("alipay: the parameter %.40q comes %d times", name, len(values))
		}
	}
	return rsakey.Verify(key, p.Get("sign"), signedText(p))
}

// signedText is what a signature covers: the parameters that have a value, sorted. A
// callback's leaves out sign_type too.
func signedText(p url.Values) []byte {
	var all []string
	for name := range p {
		if v := p.Get(name); v != "" && name != "sign" && (name != "sign_type" || !p.Has("notify_id")) {
			all = append(all, name+"="+v)
		}
	}
	slices.Sort(all)
	return []byte(strings.Join(all, "&"))
}

// SignReply returns a reply with its signature.
func SignReply(key *rsa.PrivateKey, method string, r Reply) ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	signature, err := rsakey.Sign(key, body)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{ReplyName(method): json.RawMessage(body), "sign": signature})
}

// readReply verifies a reply and returns its object. The signature covers the
// object's text as it was sent.
func readReply(key *rsa.PublicKey, method string, text []byte) (r Reply, err error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return r, fmt.Errorf("alipay: the reply is not JSON: %w", err)
	}
	var signature string
	if err := json.Unmarshal(all["sign"], &signature); err != nil {
		// So are refusals of an app or of a key. What they say is for the person who repairs that, and decides nothing.
		var said Reply
		for _, name := range []string{"error_response", ReplyName(method)} {
			_ = json.Unmarshal(all[name], &said) // one of them is there
		}
		return r, fmt.Errorf("alipay: the reply is not signed; it says %s %s", said.Code, said.SubCode)
	}
	body := all[ReplyName(method)]
	if err := rsakey.Verify(key, signature, body); err != nil {
		return r, fmt.Errorf("alipay: the reply's signature: %w", err)
	}
	err = json.Unmarshal(body, &r)
	return r, err
}

const layout = "2006-01-02 15:04:05"

// Time writes a time as Alipay does.
func Time(t time.Time) string { return t.In(company.China).Format(layout) }

// ParseTime reads what Time has written, with or without a fraction of a second.
func ParseTime(text string) (time.Time, error) {
	return time.ParseInLocation(layout, text, company.China)
}
