package sms

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/base/signature"
	"stampede/platform/edge/outbound"
)

// MinSecretBytes is the output size of SHA-256; a shorter secret is weaker than the
// hash.
const MinSecretBytes = 32

// GatewayConfig is how the gateway is reached.
type GatewayConfig struct {
	URL    string // where messages are posted
	Secret []byte // signs them; at least MinSecretBytes
	outbound.Config
}

// DefaultGatewayConfig returns the defaults; the caller sets URL and Secret.
func DefaultGatewayConfig() GatewayConfig {
	return GatewayConfig{Config: outbound.Config{
		Peer: "sms-gateway", Conns: 8, MaxBytes: 4 << 10, // more messages are rarely in flight, and only the status counts
		Timeout: 3 * time.Second, Attempts: 2, Backoff: 200 * time.Millisecond, // a shopper waits for it, so there is no third attempt
		BreakerFailures: 5, BreakerDelay: 5 * time.Second, // a dead gateway must not hold up every login
	}}
}

// Gateway sends through an HTTP gateway. Safe for concurrent use.
type Gateway struct {
	API

	cfg GatewayConfig
	now func() time.Time
}

// NewGateway returns a sender. It makes no call. now dates the signatures.
func NewGateway(cfg GatewayConfig, now func() time.Time, log *slog.Logger) *Gateway {
	return &Gateway{API: API{Client: outbound.New(cfg.Config), Log: log, Deduplicates: true}, cfg: cfg, now: now}
}

// passing reports whether a status is temporary rather than about the message.
func passing(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status < http.StatusOK || status >= http.StatusMultipleChoices && status < http.StatusBadRequest || status >= http.StatusInternalServerError
}

// Send implements Sender.
func (g *Gateway) Send(ctx context.Context, m Message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("sms: encode: %w", err)
	}
	return g.Deliver(ctx, m, outbound.Request{
		URL: g.cfg.URL, Body: body, Type: "application/json",
		Head: func(h http.Header) { signature.Stampede.Sign(h, g.cfg.Secret, g.now(), body) },
	}, func(r outbound.Reply) Answer {
		switch code := strconv.Itoa(r.Status); {
		case passing(r.Status):
			return Answer{code, Failed}
		case r.Status >= http.StatusBadRequest:
			return Answer{code, Refused}
		default:
			return Answer{code, Taken}
		}
	})
}

// Message is one text to one phone, as a gateway receives it.
type Message struct {
	// ID identifies the message; a gateway that gets it twice sends it once.
	ID string `json:"id"`
	// Phone is where it goes, in E.164.
	Phone string `json:"phone"`
	// Text is the body of the message. It may contain a secret and is never logged.
	Text string `json:"text"`
	// Template names the text, for providers that send only texts they have approved beforehand, and Params are what it
	// says differently to each reader, in the order of the text.
	Template string  `json:"template,omitempty"`
	Params   []Param `json:"params,omitempty"`
}

// Param is a part of a template's text.
type Param struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Sender sends messages. It returns nil once the gateway has accepted a message,
// which does not mean that it was delivered; else ErrUnavailable, which wraps
// outbound.ErrUnclear where the message may have been sent, or ErrRefused. It is safe for concurrent use.
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
