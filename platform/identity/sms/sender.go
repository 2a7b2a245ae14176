package sms

import (
	"context"

	"stampede/platform/base/fault"
)

// Message is one text to one phone, as a gateway receives it.
type Message struct {
	// ID identifies the message; a gateway that gets it twice sends it once.
	ID string `json:"id"`
	// Phone is where it goes, in E.164.
	Phone string `json:"phone"`
	// Text is the body of the message. It may contain a secret and is never logged.
	Text string `json:"text"`
}

// Sender sends messages. It returns nil once the gateway has accepted a message,
// which does not mean that it was delivered; else ErrUnavailable or ErrRefused. It
// is safe for concurrent use.
type Sender interface {
	Send(ctx context.Context, m Message) error
}

// A sender's errors.
var (
	ErrUnavailable = fault.New(fault.Unavailable, "sms-unavailable",
		fault.T("SMS cannot be sent right now", "短信暂时无法发送，请稍后再试"),
		fault.T("SMS cannot be sent right now. Try again in a minute.", "短信暂时无法发送，请一分钟后重试。"),
		fault.T("Log in with the password. If the shop sends SMS, try again in a minute.", "请使用密码登录；商家已开通短信的，可一分钟后重试。"))
	ErrRefused = fault.New(fault.Invalid, "sms-refused", fault.T("SMS cannot be sent to this number", "无法向该号码发送短信"),
		fault.T("The SMS service does not send to this number. Check the number, or use another one.",
			"短信服务无法发送到该号码，请核对或更换号码。"),
		fault.T("Check the number, or use another one.", "请核对手机号，或更换号码。"))
)
