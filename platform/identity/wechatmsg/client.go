// Package wechatmsg sends messages inside WeChat through the shop's own apps: subscription
// messages (订阅消息) of its mini program, and template messages (模板消息) of its official
// account.
//
// A person gets as many subscription messages as they agreed to in the mini program, and
// template messages while they follow the account; else the message is refused. So is one that
// WeChat does not take for the shop's sake: its template, its quota, its secret.
//
// # The access token
//
// Each app has one, for two hours. The stable one (stable_token) is the same for everybody
// who asks until its last five minutes, when WeChat hands out the next and takes both. So
// WeChat itself shares it between instances: each keeps it in memory, and none ever forces
// a new one, which would end the others'.
//
// # Repetition
//
// A template message with an ID that its reader got within ten minutes is not sent again. A
// subscription message has no such id: an error after which it may have been sent wraps
// outbound.ErrUnclear.
//
// Package wechattest is a fake of WeChat's server.
package wechatmsg

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/fault"
	"stampede/platform/edge/outbound"
	"stampede/platform/identity/account/wechat"
)

// Message is a message to a person in one app.
type Message struct {
	// ID identifies the message, see Repetition.
	ID string
	// App is the kind of the app in which the person has the OpenID.
	App    wechat.Kind
	OpenID string
	// Template is WeChat's id of the text, and Data what it says to this reader, by the names
	// of its fields: thing1, time2.
	Template string
	Data     map[string]string
	// Page is opened by a tap: a page of the mini program, or a URL. Empty: none.
	Page string
}

// Errors of a message.
var (
	ErrUnavailable = fault.New(fault.Unavailable, "wechat-message-unavailable",
		fault.T("WeChat messages cannot be sent right now", "微信消息暂时无法发送"),
		fault.T("WeChat does not take messages right now.", "微信暂时不接收消息。"),
		fault.T("Try again in a minute.", "请一分钟后重试。"))
	ErrRefused = fault.New(fault.Invalid, "wechat-message-refused",
		fault.T("WeChat does not send this message", "微信拒绝发送该消息"),
		fault.T("The person has not agreed to messages or does not follow the account, or WeChat does not take the template, its fields or the app's secret: the log has its code.",
			"对方未订阅消息或未关注公众号；也可能是模板、字段或应用密钥有误，错误码见日志。"),
		fault.T("Let the person subscribe in WeChat, or repair what WeChat's code names.", "请对方在微信中订阅，或按错误码修正。"))
)

// Config is how WeChat is reached.
type Config struct {
	BaseURL string // as wechat.Config's
	Apps    map[wechat.Kind]wechat.App
	Timeout time.Duration // of a call. Defaults to 5 s: no shopper waits for it.
	Log     *slog.Logger
	Metrics prometheus.Registerer // may be nil
}

// Client sends messages. Safe for concurrent use.
type Client struct {
	*outbound.Client // a breaker apart from the logins'

	cfg    Config
	mu     sync.Mutex // over a call for a token, for which all others would make the same
	tokens map[wechat.Kind]token
}

type token struct {
	text string
	ends time.Time
}

// New returns a client. It makes no call.
func New(cfg Config) *Client {
	return &Client{cfg: cfg, tokens: map[wechat.Kind]token{}, Client: outbound.New(outbound.Config{
		Peer: "wechat-messages", Conns: 8, MaxBytes: 16 << 10, // an answer has under 1 KiB
		Timeout: cmp.Or(cfg.Timeout, 5*time.Second), Attempts: 1, // see Repetition
		BreakerFailures: 5, BreakerDelay: 5 * time.Second, Metrics: cfg.Metrics,
	})}
}

// AppID is the id of the shop's app of a kind; empty where it has none, as a nil client.
func (c *Client) AppID(kind wechat.Kind) string {
	if c == nil {
		return ""
	}
	return c.cfg.Apps[kind].ID
}

// WeChat's error codes.
const (
	busy         = -1
	tooOften     = 45011
	badToken     = 40001 // also of a wrong secret
	invalidToken = 40014
	oldToken     = 42001
)

// errApp refuses a message of an app that the shop does not have.
var errApp = errors.New("wechatmsg: the shop has no such app: set --wechat-app-id or --wechat-mini-app-id")

// errNoToken is WeChat's refusal of the app.
var errNoToken = errors.New("wechatmsg: no token of the app: compare its secret and its IP allowlist at WeChat")

// Send returns nil once WeChat has accepted a message, which does not mean that it was
// delivered; else ErrUnavailable, after which it may be sent again unless it wraps
// outbound.ErrUnclear, or ErrRefused.
func (c *Client) Send(ctx context.Context, m Message) error {
	if c.AppID(m.App) == "" {
		return ErrRefused.Because(errApp)
	}
	var code int
	var key string
	for range 2 { // the second time for a token that WeChat has withdrawn
		var err error
		key, err = c.token(ctx, m.App, key)
		if err == nil {
			code, err = c.send(ctx, m, key)
		}
		if err != nil {
			c.cfg.Log.WarnContext(ctx, "WeChat message not sent", "message", m.ID, "app", m.App, "error", err)
			if errors.Is(err, errNoToken) {
				return ErrRefused.Because(err)
			}
			return ErrUnavailable.After(time.Minute).Because(err)
		}
		if code != badToken && code != invalidToken && code != oldToken {
			break
		}
	}
	if code == 0 {
		return nil
	}
	err := fmt.Errorf("wechatmsg: errcode %d", code) // errmsg repeats parts of the message
	c.cfg.Log.WarnContext(ctx, "WeChat message not sent", "message", m.ID, "app", m.App, "errcode", code)
	switch code {
	case tooOften, badToken, invalidToken, oldToken:
		return ErrUnavailable.After(time.Minute).Because(err)
	}
	return ErrRefused.Because(err)
}

// token returns an app's token, in memory or WeChat's, but not the refused one.
func (c *Client) token(ctx context.Context, kind wechat.Kind, refused string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.tokens[kind]; have.text != refused && time.Now().Before(have.ends) {
		return have.text, nil
	}
	var got struct {
		Code    int    `json:"errcode"`
		Token   string `json:"access_token"`
		Seconds int    `json:"expires_in"`
	}
	app := c.cfg.Apps[kind]
	err := c.post(ctx, "/cgi-bin/stable_token", map[string]any{
		"grant_type": "client_credential", "appid": app.ID, "secret": app.Secret,
	}, &got, func() int { return got.Code })
	switch {
	case err != nil:
		return "", err
	case got.Token == "":
		return "", fmt.Errorf("%w: errcode %d", errNoToken, got.Code)
	}
	// In its last five minutes WeChat has the next one ready.
	c.tokens[kind] = token{got.Token, time.Now().Add(time.Duration(got.Seconds)*time.Second - 5*time.Minute)}
	return got.Token, nil
}

// send makes the call and returns WeChat's code.
func (c *Client) send(ctx context.Context, m Message, key string) (int, error) {
	data := make(map[string]map[string]string, len(m.Data))
	for name, value := range m.Data {
		data[name] = map[string]string{"value": value}
	}
	body := map[string]any{"touser": m.OpenID, "template_id": m.Template, "data": data}
	path := "/cgi-bin/message/subscribe/send"
	if m.App == wechat.Official {
		path = "/cgi-bin/message/template/send"
		sum := sha256.Sum256([]byte(m.ID))
		body["url"], body["client_msg_id"] = m.Page, hex.EncodeToString(sum[:16]) // up to 32 characters
	} else {
		body["page"] = m.Page
	}
	var got struct {
		Code *int `json:"errcode"`
	}
	ctx, left := outbound.Watch(ctx)
	err := c.post(ctx, path+"?access_token="+url.QueryEscape(key), body, &got, func() int {
		if got.Code == nil {
			return busy // it is not WeChat's format
		}
		return *got.Code
	})
	switch {
	case err != nil && got.Code == nil && left() && m.App == wechat.Mini: // a template message has its id
		return 0, fmt.Errorf("%w: %w", outbound.ErrUnclear, err)
	case err != nil:
		return 0, err
	}
	return *got.Code, nil
}

// post makes a call and decodes its answer. Only a busy WeChat counts as a failure.
func (c *Client) post(ctx context.Context, path string, body, out any, code func() int) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return c.Do(ctx, outbound.Request{URL: c.cfg.BaseURL + path, Body: raw, Type: "application/json"}, func(r outbound.Reply) error {
		if r.Status != http.StatusOK || json.Unmarshal(r.Body, out) != nil || code() == busy {
			return fmt.Errorf("wechatmsg: WeChat is busy or answers in no format of its own, with status %d", r.Status)
		}
		return nil
	})
}
