package alipay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"stampede/payment/internal/company"
	"stampede/payment/provider"
	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
	"stampede/platform/edge/outbound"
)

// The methods.
const (
	Page provider.Method = "page"
	Wap  provider.Method = "wap"
)

const (
	// maxSubjectRunes is the bound of the API.
	maxSubjectRunes = 256
)

// Client is Alipay as a payment provider. Safe for concurrent use.
type Client struct {
	*outbound.Client
	cfg   Config
	now   func() time.Time
	bills *outbound.Client
}

var _ provider.Provider = (*Client)(nil)

// New returns the provider. It makes no call.
func New(cfg Config, clk clock.Clock) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Client{cfg: cfg, now: clk.Now, Client: company.Line("alipay", cfg.Backoff, cfg.Metrics), bills: company.Bills("alipay", cfg.Metrics)}, nil
}

// Profile implements provider.Provider.
func (c *Client) Profile() provider.Profile {
	return provider.Profile{
		Name: "alipay", Merchant: c.cfg.Seller, Methods: []provider.Method{Page, Wap}, MinWindow: company.MinWindow, Currencies: []string{company.CNY},
		Zone: company.China, StatementAfter: company.BillsAfter,
	}
}

// Create implements provider.Provider. It signs the address and makes no call.
func (c *Client) Create(_ context.Context, ch provider.Charge) (provider.Handoff, error) {
	if ch.Currency != company.CNY {
		return provider.Handoff{}, fmt.Errorf("%w: alipay takes CNY, not %s", provider.ErrRefused, ch.Currency)
	}
	method, product := MethodPage, "FAST_INSTANT_TRADE_PAY"
	if ch.Method == Wap {
		method, product = MethodWap, "QUICK_WAP_WAY"
	}
	p, err := c.params(method, Biz{
		OutTradeNo: ch.PaymentNo.String(), TotalAmount: company.Yuan(ch.Amount), Subject: subject(ch.Title),
		ProductCode: product, TimeExpire: Time(ch.ExpiresAt),
	}, map[string]string{"notify_url": ch.NotifyURL, "return_url": ch.ReturnURL})
	return provider.Handoff{URL: c.cfg.URL + "?" + p.Encode()}, err
}

// plain replaces the characters that the API refuses in a subject, and those that
// would break the rows of a bill, whose cells have no quotes.
var plain = strings.NewReplacer("/", "／", "=", "＝", "&", "＆", ",", "，", `"`, "＂", "\n", " ", "\r", " ")

// subject is a title as the API takes it.
func subject(title string) string {
	text := []rune(plain.Replace(title))
	return string(text[:min(len(text), maxSubjectRunes)])
}

// params are the signed parameters of a request.
func (c *Client) params(method string, biz Biz, more map[string]string) (url.Values, error) {
	content, err := json.Marshal(biz)
	if err != nil {
		return nil, err
	}
	p := url.Values{
		"app_id": {c.cfg.App}, "method": {method}, "format": {"JSON"}, "charset": {"utf-8"}, "sign_type": {"RSA2"},
		"timestamp": {Time(c.now())}, "version": {"1.0"}, "biz_content": {string(content)},
	}
	for name, v := range more {
		if v != "" {
			p.Set(name, v)
		}
	}
	return p, Sign(c.cfg.Key, p)
}

// Query implements provider.Provider.
func (c *Client) Query(ctx context.Context, p provider.Payment) (provider.Status, error) {
	r, err := c.call(ctx, MethodQuery, Biz{OutTradeNo: p.No.String()})
	if errors.Is(err, errMissing) {
		return provider.Status{State: provider.Missing}, nil
	}
	if err != nil {
		return provider.Status{}, fmt.Errorf("alipay: query: %w", err)
	}
	if r.OutTradeNo != p.No.String() {
		return provider.Status{}, errors.New("alipay: query: the reply is about another payment")
	}
	switch {
	case r.TradeStatus == TradeSuccess, r.TradeStatus == TradeFinished, r.TradeStatus == TradeClosed && r.SendPayDate != "":
		capture, err := captureOf(c.cfg.Seller, r.OutTradeNo, r.TradeNo, r.TotalAmount, r.SendPayDate)
		return provider.Status{State: provider.Captured, Capture: capture}, err
	case r.TradeStatus == TradeClosed:
		return provider.Status{State: provider.Closed}, nil
	default:
		return provider.Status{State: provider.Open}, nil
	}
}

// Close implements provider.Provider.
func (c *Client) Close(ctx context.Context, p provider.Payment) (provider.Status, error) {
	_, err := c.call(ctx, MethodClose, Biz{OutTradeNo: p.No.String()})
	switch {
	case err == nil:
		return provider.Status{State: provider.Closed}, nil
	case errors.Is(err, errMissing):
		return provider.Status{State: provider.Missing}, nil
	case !errors.Is(err, provider.ErrClosed):
		return provider.Status{}, fmt.Errorf("alipay: close: %w", err)
	}
	st, err := c.Query(ctx, p) // it has ended: paid, or closed before
	if err == nil && st.State == provider.Open {
		err = errors.New("alipay: close: the payment is still open")
	}
	return st, err
}

// Refund implements provider.Provider. The reply to a request does not say whether
// this refund was made, so it is queried; and so it is after a refusal, which is also the
// answer to the repetition of a request that refunded all that was left.
func (c *Client) Refund(ctx context.Context, ret provider.Return) (provider.RefundStatus, error) {
	out := provider.RefundStatus{
		State: provider.Processing, Merchant: c.cfg.Seller, RefundNo: ret.RefundNo, PaymentNo: ret.Payment.No, Amount: ret.Amount, Currency: company.CNY,
	}
	refund := Biz{OutTradeNo: ret.Payment.No.String(), OutRequestNo: ret.RefundNo.String()}
	ask := refund
	ask.RefundAmount, ask.RefundReason = company.Yuan(ret.Amount), ret.Reason
	_, refused := c.call(ctx, MethodRefund, ask)
	if refused != nil && !errors.Is(refused, errMissing) && !errors.Is(refused, provider.ErrClosed) && !errors.Is(refused, provider.ErrRefused) {
		return provider.RefundStatus{}, fmt.Errorf("alipay: refund: %w", refused)
	}
	refund.QueryOptions = []string{"gmt_refund_pay"}
	r, err := c.call(ctx, MethodRefundQuery, refund)
	switch {
	case refused != nil && (errors.Is(err, errMissing) || err == nil && r.RefundStatus != RefundSuccess):
		return provider.RefundStatus{}, fmt.Errorf("alipay: refund: %w: %w", provider.ErrRefused, refused)
	case err != nil:
		return provider.RefundStatus{}, fmt.Errorf("alipay: query refund: %w", err)
	case r.RefundStatus != RefundSuccess:
		return out, nil
	case r.OutTradeNo != ret.Payment.No.String() || r.OutRequestNo != ret.RefundNo.String():
		return provider.RefundStatus{}, errors.New("alipay: query refund: the reply is about another refund")
	}
	out.State = provider.Succeeded
	if out.Amount, err = company.ParseYuan(r.RefundAmount); err == nil {
		out.At, err = ParseTime(r.GmtRefundPay)
	}
	return out, err
}

// errMissing means that Alipay does not know the number.
var errMissing = errors.New("alipay: there is no such number")

// call makes one signed call and returns its verified reply. A refusal of the content
// is provider.ErrRefused, a trade that has ended provider.ErrClosed, an unknown number
// errMissing; any other error may be gone the next time.
func (c *Client) call(ctx context.Context, method string, biz Biz) (r Reply, err error) {
	p, err := c.params(method, biz, nil)
	if err != nil {
		return r, err
	}
	err = c.Do(ctx, outbound.Request{
		URL: c.cfg.URL, Body: []byte(p.Encode()), Type: "application/x-www-form-urlencoded;charset=utf-8",
	}, func(reply outbound.Reply) (err error) {
		if reply.Status != http.StatusOK {
			return fmt.Errorf("status %d", reply.Status)
		}
		if r, err = readReply(c.cfg.Peer, method, reply.Body); err == nil && r.Code != CodeOK && r.Code != CodeFailed {
			err = fmt.Errorf("%s %s: %s %s", r.Code, r.Msg, r.SubCode, r.SubMsg)
		}
		return err
	})
	if err == nil && r.Code == CodeFailed {
		err = refused(r)
	}
	return r, err
}

// refused returns the error that a reply reports.
func refused(r Reply) error {
	said := fmt.Errorf("%s: %s", r.SubCode, r.SubMsg)
	if strings.HasSuffix(r.SubCode, "bill_not_exist") {
		return fmt.Errorf("%w: %w", errNoBill, said)
	}
	switch r.SubCode {
	case "ACQ.TRADE_NOT_EXIST":
		return fmt.Errorf("%w: %w", errMissing, said)
	case "ACQ.TRADE_HAS_SUCCESS", "ACQ.TRADE_HAS_CLOSE", "ACQ.TRADE_STATUS_ERROR", "ACQ.TRADE_HAS_FINISHED", "ACQ.REASON_TRADE_STATUS_INVALID":
		return fmt.Errorf("%w: %w", provider.ErrClosed, said)
	case "ACQ.INVALID_PARAMETER", "ACQ.REFUND_AMT_NOT_EQUAL_TOTAL", "ACQ.REASON_TRADE_REFUND_FEE_ERR", "ACQ.REFUND_FEE_ERROR", "ACQ.TRADE_NOT_ALLOW_REFUND",
		"ACQ.DISCORDANT_REPEAT_REQUEST", "ACQ.ENTERPRISE_PAY_BIZ_ERROR":
		return fmt.Errorf("%w: %w", provider.ErrRefused, said)
	default: // ACQ.SYSTEM_ERROR, ACQ.SELLER_BALANCE_NOT_ENOUGH and others: time or a person repairs them
		return said
	}
}

// captureOf is the money of a trade that was paid.
func captureOf(seller, outTradeNo, tradeNo, amount, at string) (c provider.Capture, err error) {
	no, err1 := ids.Parse(outTradeNo)
	fen, err2 := company.ParseYuan(amount)
	paid, err3 := ParseTime(at)
	if err := errors.Join(err1, err2, err3); err != nil {
		return c, err
	}
	if tradeNo == "" {
		return c, errors.New("alipay: a capture without a trade number")
	}
	return provider.Capture{Merchant: seller, PaymentNo: no, Transaction: tradeNo, Amount: fen, Currency: company.CNY, At: paid}, nil
}

// Parse implements provider.Provider. A callback about a refund repeats the capture: the
// refund itself is known from the call that requested it.
func (c *Client) Parse(_ http.Header, body []byte) (provider.Notice, error) {
	p, err := url.ParseQuery(string(body))
	if err == nil {
		err = Verify(c.cfg.Peer, p)
	}
	if err == nil && p.Get("notify_id") == "" {
		err = errors.New("alipay: it is not a callback") // a signed request or return address of another kind
	}
	if err != nil {
		return provider.Notice{}, fmt.Errorf("%w: %w", provider.ErrBadSignature, err)
	}
	switch status := p.Get("trade_status"); {
	case status == TradeSuccess, status == TradeFinished, status == TradeClosed && p.Get("gmt_payment") != "":
	case status == TradeClosed, status == TradeWaits:
		return provider.Notice{}, nil
	default:
		return provider.Notice{}, fmt.Errorf("%w: trade status %.40q", provider.ErrUnreadable, status)
	}
	seller := p.Get("seller_id")
	if p.Get("app_id") != c.cfg.App {
		seller += " by the app " + p.Get("app_id")
	}
	capture, err := captureOf(seller, p.Get("out_trade_no"), p.Get("trade_no"), p.Get("total_amount"), p.Get("gmt_payment"))
	if err != nil {
		return provider.Notice{}, fmt.Errorf("%w: %w", provider.ErrUnreadable, err)
	}
	return provider.Notice{Capture: &capture}, nil
}

// Answer implements provider.Provider. Alipay reads the body alone.
func (c *Client) Answer(err error) provider.Reply {
	status, word := http.StatusOK, "success"
	switch {
	case err == nil:
	case errors.Is(err, provider.ErrBadSignature):
		status, word = http.StatusUnauthorized, "failure"
	case errors.Is(err, provider.ErrUnreadable):
		status, word = http.StatusBadRequest, "failure"
	default:
		status, word = http.StatusServiceUnavailable, "failure"
	}
	return provider.Reply{Status: status, ContentType: "text/plain; charset=utf-8", Body: []byte(word)}
}
