package alipay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
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

// maxSubjectRunes is the bound of the API.
const maxSubjectRunes = 256

// Client is Alipay as a payment provider. Safe for concurrent use.
type Client struct {
	company.Client
	cfg Config
	now func() time.Time
}

var _ provider.Provider = (*Client)(nil)

// New returns the provider. It makes no call.
func New(cfg Config, clk clock.Clock) *Client {
	return &Client{cfg: cfg, now: clk.Now, Client: company.NewClient("alipay", cfg.Backoff, cfg.Metrics)}
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
	if errors.Is(err, company.ErrMissing) {
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
	return company.Closed("alipay", err, func() (provider.Status, error) { return c.Query(ctx, p) })
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
	if refused != nil && !errors.Is(refused, company.ErrMissing) && !errors.Is(refused, provider.ErrClosed) && !errors.Is(refused, provider.ErrRefused) {
		return provider.RefundStatus{}, fmt.Errorf("alipay: refund: %w", refused)
	}
	refund.QueryOptions = []string{"gmt_refund_pay"}
	r, err := c.call(ctx, MethodRefundQuery, refund)
	switch {
	case refused != nil && (errors.Is(err, company.ErrMissing) || err == nil && r.RefundStatus != RefundSuccess):
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

// call makes one signed call and returns its verified reply. A refusal of the content
// is provider.ErrRefused, a trade that has ended provider.ErrClosed, an unknown number
// company.ErrMissing; any other error may be gone the next time.
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
	if slices.Contains(noBill, strings.ToUpper(strings.TrimPrefix(r.SubCode, "isp."))) {
		return fmt.Errorf("%w: %w", company.ErrNoBill, said)
	}
	if kind := refusals[r.SubCode]; kind != nil {
		return fmt.Errorf("%w: %w", kind, said)
	}
	return said // ACQ.SYSTEM_ERROR, ACQ.SELLER_BALANCE_NOT_ENOUGH and others: time or a person repairs them
}

// noBill are the codes for a day without a bill, as the documents write them; the gateway writes isp.bill_not_exist.
var noBill = []string{"BILL_NOT_EXIST", "NO_BILL_DATA", "BILL_DATE_BEFORE_REGISTRATION"}

// refusals are the codes that say what became of a request.
var refusals = map[string]error{
	"ACQ.TRADE_NOT_EXIST":   company.ErrMissing,
	"ACQ.TRADE_HAS_SUCCESS": provider.ErrClosed, "ACQ.TRADE_HAS_CLOSE": provider.ErrClosed, "ACQ.TRADE_STATUS_ERROR": provider.ErrClosed,
	"ACQ.TRADE_HAS_FINISHED": provider.ErrClosed, "ACQ.REASON_TRADE_STATUS_INVALID": provider.ErrClosed,
	"ACQ.INVALID_PARAMETER": provider.ErrRefused, "ACQ.REFUND_AMT_NOT_EQUAL_TOTAL": provider.ErrRefused, "ACQ.REASON_TRADE_REFUND_FEE_ERR": provider.ErrRefused,
	"ACQ.REFUND_FEE_ERROR": provider.ErrRefused, "ACQ.TRADE_NOT_ALLOW_REFUND": provider.ErrRefused, "ACQ.DISCORDANT_REPEAT_REQUEST": provider.ErrRefused,
	"ACQ.ENTERPRISE_PAY_BIZ_ERROR": provider.ErrRefused,
}

// captureOf is the money of a trade that was paid.
func captureOf(seller, outTradeNo, tradeNo, amount, at string) (c provider.Capture, err error) {
	c = provider.Capture{Merchant: seller, Transaction: tradeNo, Currency: company.CNY}
	if tradeNo == "" {
		return c, errors.New("alipay: a capture without a trade number")
	}
	if c.PaymentNo, err = ids.Parse(outTradeNo); err != nil {
		return c, err
	}
	if c.Amount, err = company.ParseYuan(amount); err != nil {
		return c, err
	}
	c.At, err = ParseTime(at)
	return c, err
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
	if err != nil {
		status, _ = provider.Refusal(err)
		word = "failure"
	}
	return provider.Reply{Status: status, ContentType: "text/plain; charset=utf-8", Body: []byte(word)}
}
