package wechatpay

import "time"

// The messages of API v3, as far as the shop uses them. The stand-in writes what the
// client reads.

// Transaction is a payment, in a reply or a callback.
type Transaction struct {
	MchID         string    `json:"mchid"`
	AppID         string    `json:"appid,omitempty"`
	OutTradeNo    string    `json:"out_trade_no"`
	TransactionID string    `json:"transaction_id,omitempty"`
	TradeState    string    `json:"trade_state"`
	SuccessTime   time.Time `json:"success_time,omitzero"`
	Amount        Amount    `json:"amount,omitzero"`
}

// Amount is in fen.
type Amount struct {
	Total    int64  `json:"total"`
	Refund   int64  `json:"refund,omitempty"`
	Currency string `json:"currency,omitempty"` // missing means CNY
}

// The states of a Transaction.
const (
	TradeSuccess = "SUCCESS"
	TradeRefund  = "REFUND" // captured, and refunded in part or whole
	TradeNotPay  = "NOTPAY"
	TradeClosed  = "CLOSED"
)

// RefundResult is a refund. A reply has Status, a callback RefundStatus.
type RefundResult struct {
	MchID         string    `json:"mchid,omitempty"`
	OutTradeNo    string    `json:"out_trade_no"`
	TransactionID string    `json:"transaction_id"`
	OutRefundNo   string    `json:"out_refund_no"`
	RefundID      string    `json:"refund_id"`
	Status        string    `json:"status,omitempty"`
	RefundStatus  string    `json:"refund_status,omitempty"`
	SuccessTime   time.Time `json:"success_time,omitzero"`
	Amount        Amount    `json:"amount"`
}

// The states of a RefundResult.
const (
	RefundSuccess    = "SUCCESS"
	RefundProcessing = "PROCESSING"
	RefundClosed     = "CLOSED"
	RefundAbnormal   = "ABNORMAL"
)

// Notification is a callback.
type Notification struct {
	ID        string    `json:"id"`
	Created   time.Time `json:"create_time"`
	EventType string    `json:"event_type"`
	Type      string    `json:"resource_type"`
	Resource  Resource  `json:"resource"`
}

// Prepay asks for a payment.
type Prepay struct {
	AppID       string     `json:"appid"`
	MchID       string     `json:"mchid"`
	Description string     `json:"description"`
	OutTradeNo  string     `json:"out_trade_no"`
	TimeExpire  string     `json:"time_expire"`
	NotifyURL   string     `json:"notify_url"`
	Amount      Amount     `json:"amount"`
	Payer       *Payer     `json:"payer,omitempty"`
	SceneInfo   *SceneInfo `json:"scene_info,omitempty"`
}

// Payer pays inside WeChat.
type Payer struct {
	OpenID string `json:"openid"`
}

// SceneInfo says where an h5 payment is made.
type SceneInfo struct {
	PayerClientIP string `json:"payer_client_ip"`
	H5Info        struct {
		Type string `json:"type"`
	} `json:"h5_info"`
}

// Prepaid answers a Prepay with what the method needs.
type Prepaid struct {
	CodeURL  string `json:"code_url,omitempty"`
	H5URL    string `json:"h5_url,omitempty"`
	PrepayID string `json:"prepay_id,omitempty"`
}

// RefundRequest asks for a refund.
type RefundRequest struct {
	OutTradeNo  string `json:"out_trade_no"`
	OutRefundNo string `json:"out_refund_no"`
	Reason      string `json:"reason,omitempty"`
	NotifyURL   string `json:"notify_url,omitempty"`
	Amount      Amount `json:"amount"`
}

// Problem is the body of a refusal, and of our answer to a callback.
type Problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}
