package wechatpay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
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
	Native provider.Method = "native"
	JSAPI  provider.Method = "jsapi"
	H5     provider.Method = "h5"
)

// maxDescriptionBytes and maxReasonBytes are bounds of the API.
const maxDescriptionBytes, maxReasonBytes = 127, 80

// handoffLife and h5Life are how long a handoff is given out. WeChat Pay takes a code_url and a prepay_id for two hours
// and an h5_url for five minutes; the rest is for the shopper who has just got it.
const handoffLife, h5Life = 2*time.Hour - 10*time.Minute, 4 * time.Minute

// Client is WeChat Pay as a payment provider. Safe for concurrent use.
type Client struct {
	company.Client
	cfg   Config
	now   func() time.Time
	peers *peers
}

var _ provider.Provider = (*Client)(nil)

// New returns the provider. It makes no call.
func New(cfg Config, clk clock.Clock) *Client {
	return &Client{cfg: cfg, now: clk.Now, Client: company.NewClient("wechatpay", cfg.Backoff, cfg.Metrics), peers: newPeers(cfg.Peers)}
}

// Profile implements provider.Provider.
func (c *Client) Profile() provider.Profile {
	return provider.Profile{
		Name: "wechat", Merchant: c.cfg.Merchant, Methods: []provider.Method{Native, JSAPI, H5}, MinWindow: company.MinWindow,
		Kinds: map[provider.Method]provider.Kind{Native: provider.Scan, JSAPI: provider.InApp}, Currencies: []string{company.CNY},
		Logins: map[provider.Method]string{JSAPI: c.cfg.App},
		Zone:   company.China, StatementAfter: company.BillsAfter,
	}
}

// Create implements provider.Provider.
func (c *Client) Create(ctx context.Context, ch provider.Charge) (provider.Handoff, error) {
	ask := Prepay{
		AppID: c.cfg.App, MchID: c.cfg.Merchant, Description: shorten(ch.Title, maxDescriptionBytes), OutTradeNo: ch.PaymentNo.String(),
		TimeExpire: ch.ExpiresAt.In(company.China).Format(time.RFC3339), NotifyURL: ch.NotifyURL, Amount: Amount{Total: ch.Amount, Currency: ch.Currency},
	}
	switch ch.Method {
	case JSAPI:
		var err error
		if ask.Payer, err = c.payer(ctx, ch); err != nil {
			return provider.Handoff{}, err
		}
	case H5:
		ask.SceneInfo = &SceneInfo{PayerClientIP: ch.Address.String()}
		ask.SceneInfo.H5Info.Type = "Wap"
	default: // native needs nothing more
	}
	var out Prepaid
	if err := c.call(ctx, http.MethodPost, "/v3/pay/transactions/"+string(ch.Method), ask, &out); err != nil {
		return provider.Handoff{}, fmt.Errorf("wechatpay: create: %w", err)
	}
	until := c.now().Add(handoffLife)
	switch {
	case ch.Method == Native && out.CodeURL != "":
		return provider.Handoff{QR: out.CodeURL, Until: until}, nil
	case ch.Method == H5 && out.H5URL != "":
		if ch.ReturnURL != "" {
			out.H5URL += "&redirect_url=" + url.QueryEscape(ch.ReturnURL)
		}
		return provider.Handoff{URL: out.H5URL, Until: c.now().Add(h5Life)}, nil
	case ch.Method == JSAPI && out.PrepayID != "":
		h, err := c.inside(out.PrepayID)
		h.Until = until
		return h, err
	}
	return provider.Handoff{}, fmt.Errorf("wechatpay: create: the reply has nothing for the method %s", ch.Method)
}

// payer is the shopper of a payment inside WeChat.
func (c *Client) payer(ctx context.Context, ch provider.Charge) (*Payer, error) {
	if ch.OpenID != nil {
		id, err := ch.OpenID(ctx, c.cfg.App)
		if err != nil || id != "" {
			return &Payer{id}, err
		}
	}
	return nil, provider.ErrNoLogin
}

// inside signs the parameters of the payment call inside WeChat.
func (c *Client) inside(prepayID string) (provider.Handoff, error) {
	p := map[string]string{
		"appId": c.cfg.App, "timeStamp": strconv.FormatInt(c.now().Unix(), 10), "nonceStr": ids.New().String(),
		"package": "prepay_id=" + prepayID, "signType": "RSA",
	}
	var err error
	p["paySign"], err = Sign(c.cfg.Key, p["appId"], p["timeStamp"], p["nonceStr"], p["package"])
	return provider.Handoff{JSAPI: p}, err
}

// Query implements provider.Provider.
func (c *Client) Query(ctx context.Context, p provider.Payment) (provider.Status, error) {
	var t Transaction
	err := c.call(ctx, http.MethodGet, tradePath(p.No)+"?mchid="+c.cfg.Merchant, nil, &t)
	if errors.Is(err, company.ErrMissing) {
		return provider.Status{State: provider.Missing}, nil
	}
	if err != nil {
		return provider.Status{}, fmt.Errorf("wechatpay: query: %w", err)
	}
	if t.OutTradeNo != p.No.String() {
		return provider.Status{}, errors.New("wechatpay: query: the reply is about another payment")
	}
	switch t.TradeState {
	case TradeSuccess, TradeRefund:
		capture, err := t.capture()
		return provider.Status{State: provider.Captured, Capture: capture}, err
	case TradeClosed, "REVOKED":
		return provider.Status{State: provider.Closed}, nil
	default:
		return provider.Status{State: provider.Open}, nil
	}
}

// Close implements provider.Provider. WeChat Pay does not say whether it closed a
// payment that had ended before, so its state is asked.
func (c *Client) Close(ctx context.Context, p provider.Payment) (provider.Status, error) {
	err := c.call(ctx, http.MethodPost, tradePath(p.No)+"/close", map[string]string{"mchid": c.cfg.Merchant}, nil)
	return company.Closed("wechatpay", err, func() (provider.Status, error) { return c.Query(ctx, p) })
}

func tradePath(no ids.ID) string { return "/v3/pay/transactions/out-trade-no/" + no.String() }

// Refund implements provider.Provider.
func (c *Client) Refund(ctx context.Context, r provider.Return) (provider.RefundStatus, error) {
	var out RefundResult
	err := c.call(ctx, http.MethodPost, "/v3/refund/domestic/refunds", RefundRequest{
		OutTradeNo: r.Payment.No.String(), OutRefundNo: r.RefundNo.String(), Reason: shorten(r.Reason, maxReasonBytes), NotifyURL: r.NotifyURL,
		Amount: Amount{Refund: r.Amount, Total: r.Captured, Currency: r.Currency},
	}, &out)
	if errors.Is(err, company.ErrMissing) {
		err = fmt.Errorf("%w: %w", provider.ErrRefused, err) // there is no such payment
	}
	if err != nil {
		return provider.RefundStatus{}, fmt.Errorf("wechatpay: refund: %w", err)
	}
	out.MchID = c.cfg.Merchant // only callbacks name it
	return out.status(out.Status)
}

// call makes one signed call and decodes its verified reply into out. A refusal of the
// content is provider.ErrRefused, a payment that has ended provider.ErrClosed, an
// unknown number company.ErrMissing; any other error may be gone the next time.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	if path != certificatesPath {
		c.renew(ctx)
	}
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	var refused, signing error
	err := c.Do(ctx, outbound.Request{
		URL: c.cfg.URL + path, Body: body, Type: "application/json",
		Head: func(h http.Header) {
			signing = c.authorize(h, method, path, body) // again for each attempt: it must be fresh
			h.Set("Accept", "application/json")
		},
	}, func(r outbound.Reply) error {
		if signing != nil {
			return signing
		}
		// A refusal that WeChat Pay could not attribute to a merchant is not signed; it is a mistake in
		// the settings, and not final. A server in between signs nothing either.
		if err := c.verify(r.Header, r.Body); err != nil {
			return fmt.Errorf("%w; it says %v", err, refusedBy(r)) //nolint:errorlint // what an unsigned reply says is not believed
		}
		if r.Status >= http.StatusInternalServerError || r.Status == http.StatusTooManyRequests {
			return refusedBy(r)
		}
		refused = nil
		switch {
		case r.Status >= http.StatusBadRequest:
			refused = refusedBy(r)
		case out != nil:
			refused = json.Unmarshal(r.Body, out)
		}
		return nil
	})
	return cmp.Or(err, refused)
}

// refusedBy returns the error that a reply other than 2xx reports.
func refusedBy(r outbound.Reply) error {
	var p Problem
	if err := json.Unmarshal(r.Body, &p); err != nil {
		return fmt.Errorf("status %d, not JSON", r.Status)
	}
	said := fmt.Errorf("status %d: %s: %s", r.Status, p.Code, p.Message)
	if kind := refusals[p.Code]; kind != nil {
		return fmt.Errorf("%w: %w", kind, said)
	}
	return said // SIGN_ERROR, NO_AUTH, NOT_ENOUGH and others: a person can repair what is behind them
}

// refusals are the codes that say what became of a request.
var refusals = map[string]error{
	"ORDERPAID": provider.ErrClosed, "ORDER_CLOSED": provider.ErrClosed, "ORDERCLOSED": provider.ErrClosed, "OUT_TRADE_NO_USED": provider.ErrClosed,
	"ORDER_NOT_EXIST": company.ErrMissing, "ORDERNOTEXIST": company.ErrMissing, "RESOURCE_NOT_EXISTS": company.ErrMissing,
	"PARAM_ERROR": provider.ErrRefused, "INVALID_REQUEST": provider.ErrRefused, "RULE_LIMIT": provider.ErrRefused, "MCH_NOT_EXISTS": provider.ErrRefused,
	"APPID_MCHID_NOT_MATCH": provider.ErrRefused, "OPENID_MISMATCH": provider.ErrRefused, "USER_ACCOUNT_ABNORMAL": provider.ErrRefused,
	"NO_STATEMENT_EXIST": company.ErrNoBill, "STATEMENT_CREATING": provider.ErrNotReady,
}

// shorten cuts a text to n bytes, between two characters.
func shorten(text string, n int) string {
	text = strings.ToValidUTF8(text, "")
	return strings.ToValidUTF8(text[:min(n, len(text))], "")
}
