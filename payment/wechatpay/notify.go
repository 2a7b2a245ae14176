package wechatpay

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"stampede/payment/internal/company"
	"stampede/payment/provider"
	"stampede/platform/base/ids"
)

// The events of callbacks.
const (
	EventCaptured       = "TRANSACTION.SUCCESS"
	EventRefunded       = "REFUND.SUCCESS"
	EventRefundAbnormal = "REFUND.ABNORMAL"
	EventRefundClosed   = "REFUND.CLOSED"
)

// Parse implements provider.Provider.
func (c *Client) Parse(h http.Header, body []byte) (provider.Notice, error) {
	if err := c.verify(h, body); err != nil {
		return provider.Notice{}, fmt.Errorf("%w: %w", provider.ErrBadSignature, err)
	}
	n, err := c.read(body)
	if err != nil {
		return provider.Notice{}, fmt.Errorf("%w: %w", provider.ErrUnreadable, err)
	}
	return n, nil
}

// read decodes a callback whose signature is right.
func (c *Client) read(body []byte) (out provider.Notice, err error) {
	var n Notification
	if err := json.Unmarshal(body, &n); err != nil {
		return out, err
	}
	text, err := n.Resource.open(c.cfg.APIKey)
	if err != nil {
		return out, err
	}
	switch n.EventType {
	case EventCaptured:
		var t Transaction
		if err := json.Unmarshal(text, &t); err != nil {
			return out, err
		}
		if t.TradeState != TradeSuccess {
			return out, fmt.Errorf("wechatpay: %s of a payment that is %s", n.EventType, t.TradeState)
		}
		capture, err := t.capture()
		return provider.Notice{Capture: &capture}, err
	case EventRefunded, EventRefundAbnormal, EventRefundClosed:
		var r RefundResult
		if err := json.Unmarshal(text, &r); err != nil {
			return out, err
		}
		status, err := r.status(r.RefundStatus)
		return provider.Notice{Refund: &status}, err
	default:
		return out, fmt.Errorf("wechatpay: unknown event %.40q", n.EventType)
	}
}

// capture is the money of a transaction that succeeded.
func (t Transaction) capture() (provider.Capture, error) {
	no, err := ids.Parse(t.OutTradeNo)
	if err != nil {
		return provider.Capture{}, err
	}
	if t.TransactionID == "" || t.SuccessTime.IsZero() {
		return provider.Capture{}, errors.New("wechatpay: a capture without transaction or time")
	}
	return provider.Capture{
		Merchant: t.MchID, PaymentNo: no, Transaction: t.TransactionID, Amount: t.Amount.Total, Currency: cmp.Or(t.Amount.Currency, company.CNY), At: t.SuccessTime,
	}, nil
}

// status is a refund in a state of its own message.
func (r RefundResult) status(state string) (_ provider.RefundStatus, err error) {
	out := provider.RefundStatus{
		Merchant: r.MchID, Transaction: r.RefundID, Amount: r.Amount.Refund, Currency: cmp.Or(r.Amount.Currency, company.CNY),
	}
	if out.RefundNo, err = ids.Parse(r.OutRefundNo); err != nil {
		return out, err
	}
	if out.PaymentNo, err = ids.Parse(r.OutTradeNo); err != nil {
		return out, err
	}
	switch state {
	case RefundSuccess:
		if r.RefundID == "" || r.SuccessTime.IsZero() {
			return out, errors.New("wechatpay: a refund without number or time")
		}
		out.State, out.At = provider.Succeeded, r.SuccessTime
	case RefundProcessing:
		out.State = provider.Processing
	case RefundClosed, RefundAbnormal:
		out.State = provider.Failed
	default:
		return out, fmt.Errorf("wechatpay: unknown refund status %.40q", state)
	}
	return out, nil
}

// Answer implements provider.Provider.
func (c *Client) Answer(err error) provider.Reply {
	if err == nil {
		return provider.Reply{Status: http.StatusNoContent}
	}
	status, why := provider.Refusal(err)
	body, _ := json.Marshal(Problem{Code: "FAIL", Message: why}) // two strings always encode
	return provider.Reply{Status: status, ContentType: "application/json", Body: body}
}
