package wechat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/outbound"
)

// Kind is the type of a WeChat app.
type Kind string

// The kinds; each has a different endpoint for the exchange.
const (
	Official Kind = "official" // a page of an official account: OAuth 2
	Mini     Kind = "mini"     // a mini program: jscode2session
)

// Errors of an exchange.
var (
	ErrBadCode = fault.New(fault.Unauthenticated, "wechat-bad-code",
		fault.T("Please log in with WeChat again", "微信授权已失效，请重新授权"),
		fault.T("WeChat does not know this code, or it was already used; get a new one from WeChat.",
			"微信授权码无效或已使用，请重新授权。"),
		fault.T("Get a new code from WeChat.", "请重新进行微信授权。"))
	ErrUnavailable = fault.New(fault.Unavailable, "wechat-unavailable",
		fault.T("WeChat login is not available right now", "微信登录暂不可用"),
		fault.T("WeChat does not answer right now. Try again in a moment, or log in by phone.",
			"微信暂无响应，请稍后重试，或使用手机号登录。"),
		fault.T("Try again in a moment, or log in by phone.", "请稍后重试，或使用手机号登录。"))
)

// App is what WeChat knows an app of the shop by.
type App struct{ ID, Secret string }

// Config is how WeChat is reached.
type Config struct {
	BaseURL string       // https://api.weixin.qq.com, without a trailing slash
	Apps    map[Kind]App // the shop's, at most one of each kind
	// PageURL is where shoppers agree to a login, without a trailing slash; ReturnURL is
	// the shop's page to which WeChat sends them then, with a code. Without it there is no
	// such login: an app or a mini program asks for its codes itself.
	PageURL, ReturnURL string
	outbound.Config
}

// DefaultConfig returns the defaults; the caller sets Apps.
func DefaultConfig() Config {
	return Config{BaseURL: "https://api.weixin.qq.com", PageURL: "https://open.weixin.qq.com", Config: outbound.Config{
		Peer: "wechat", Conns: 8, MaxBytes: 16 << 10, // more exchanges are rarely in flight, and an answer has under 1 KiB
		Timeout: 3 * time.Second, Attempts: 1, // a shopper waits, and a code is valid once
		BreakerFailures: 5, BreakerDelay: 5 * time.Second, // a WeChat that hangs must not tie up the server
	}}
}

// Client exchanges codes. Safe for concurrent use.
type Client struct {
	*outbound.Client
	cfg Config
}

// New returns a client. It makes no call.
func New(cfg Config) *Client { return &Client{Client: outbound.New(cfg.Config), cfg: cfg} }

// Identity identifies a person in a WeChat app.
type Identity struct {
	AppID   string
	OpenID  string // identifies a person within the app
	UnionID string // identifies a person across all apps of one owner; often empty
}

// App returns the kind of the app that a client names, and whether the shop has it. A
// client that names none is a page, or of the only app.
func (c *Client) App(named Kind) (kind Kind, has bool) {
	if kind = named; kind == "" {
		kind = Official
		if _, page := c.cfg.Apps[Official]; !page {
			kind = Mini
		}
	}
	_, has = c.cfg.Apps[kind]
	return kind, has
}

// AuthorizeURL is where a page inside WeChat sends its shopper for a code; "" where there
// is no such page. The scope makes WeChat say who the shopper is in the shop's other apps
// too. WeChat compares the address with a pattern, so the members keep this order.
func (c *Client) AuthorizeURL(state string) string {
	app, page := c.cfg.Apps[Official]
	if !page || c.cfg.ReturnURL == "" {
		return ""
	}
	return c.cfg.PageURL + "/connect/oauth2/authorize?appid=" + url.QueryEscape(app.ID) + "&redirect_uri=" + url.QueryEscape(c.cfg.ReturnURL) +
		"&response_type=code&scope=snsapi_userinfo&state=" + url.QueryEscape(state) + "#wechat_redirect"
}

// answer is WeChat's answer, for both kinds of app. Code is 0 or absent on success.
type answer struct {
	Code    int    `json:"errcode"`
	Message string `json:"errmsg"`
	OpenID  string `json:"openid"`
	UnionID string `json:"unionid"`
}

// The error codes that concern the shopper's code. Any other concerns the shop or
// WeChat: -1 busy, 40013 and 40125 a wrong app id or secret, 45011 rate limited.
const (
	codeInvalid = 40029
	codeUsed    = 40163
	codeExpired = 42003
	codeBlocked = 40226 // a person whom WeChat has blocked
)

// fault maps an error code to a fault.
func (a answer) fault() *fault.Error {
	cause := fmt.Errorf("wechat: errcode %d", a.Code) // errmsg repeats parts of the request
	switch a.Code {
	case codeInvalid, codeUsed, codeExpired, codeBlocked:
		return ErrBadCode.Because(cause)
	default:
		return ErrUnavailable.After(retryAfter).Because(cause)
	}
}

// retryAfter is when a retry makes sense: WeChat's limits are per minute, its
// outages usually shorter.
const retryAfter = 30 * time.Second

// mostCode bounds a code; WeChat's have 32 characters today.
const mostCode = 128

// Exchange returns the identity behind a code of an app that the shop has: ErrBadCode for
// a code that WeChat rejects, ErrUnavailable when WeChat gives no verdict.
func (c *Client) Exchange(ctx context.Context, kind Kind, code string) (Identity, error) {
	if code == "" || len(code) > mostCode {
		return Identity{}, ErrBadCode
	}
	var a answer
	err := c.Do(ctx, outbound.Request{URL: c.address(kind, code)}, func(r outbound.Reply) (err error) {
		a, err = read(r)
		return err
	})
	switch {
	case err != nil:
		return Identity{}, ErrUnavailable.After(retryAfter).Because(err)
	case a.Code != 0:
		return Identity{}, a.fault()
	}
	return Identity{AppID: c.cfg.Apps[kind].ID, OpenID: a.OpenID, UnionID: a.UnionID}, nil
}

// address is the exchange's URL. It contains the app's secret, as WeChat requires,
// so it must not appear in an error.
func (c *Client) address(kind Kind, code string) string {
	app := c.cfg.Apps[kind]
	q := url.Values{"appid": {app.ID}, "secret": {app.Secret}, "grant_type": {"authorization_code"}}
	path := "/sns/oauth2/access_token"
	if kind == Mini {
		path = "/sns/jscode2session"
		q.Set("js_code", code)
	} else {
		q.Set("code", code)
	}
	return c.cfg.BaseURL + path + "?" + q.Encode()
}

// read parses an answer. A rejected code is a successful call: it shows no problem
// of WeChat, while a busy system does.
func read(r outbound.Reply) (answer, error) {
	if r.Status != http.StatusOK {
		return answer{}, fmt.Errorf("wechat: status %d", r.Status)
	}
	var a answer
	if json.Unmarshal(r.Body, &a) != nil || a.Code == 0 && a.OpenID == "" {
		return answer{}, errUnreadable // without the text, which contains the person's secrets
	}
	if f := a.fault(); a.Code != 0 && !errors.Is(f, ErrBadCode) {
		return answer{}, f
	}
	return a, nil
}

var errUnreadable = errors.New("wechat: the answer is not in WeChat's format")

// Settings configure the shop's WeChat apps for logins.
type Settings struct {
	WechatAppID         string `default:"" env:"STAMPEDE_WECHAT_APP_ID" help:"WeChat official account in which shoppers log in on the pages. Empty: none."`
	WechatAppSecret     string `default:"" env:"STAMPEDE_WECHAT_APP_SECRET" help:"That account's secret." secret:""`
	WechatMiniAppID     string `default:"" env:"STAMPEDE_WECHAT_MINI_APP_ID" help:"WeChat mini program whose shoppers log in. Empty: none." rare:""`
	WechatMiniAppSecret string `default:"" env:"STAMPEDE_WECHAT_MINI_APP_SECRET" help:"That mini program's secret." secret:"" rare:""`
	WechatURL           string `default:"https://api.weixin.qq.com" env:"STAMPEDE_WECHAT_URL" help:"Base URL of WeChat's API, without a path." rare:""`
}

// Apps are the apps that are set.
func (s Settings) Apps() map[Kind]App {
	apps := map[Kind]App{Official: {s.WechatAppID, s.WechatAppSecret}, Mini: {s.WechatMiniAppID, s.WechatMiniAppSecret}}
	maps.DeleteFunc(apps, func(_ Kind, app App) bool { return app.ID == "" })
	return apps
}

// Check returns an error for each wrong setting.
func (s Settings) Check() error {
	var wrong []error
	if (s.WechatAppID == "") != (s.WechatAppSecret == "") {
		wrong = append(wrong, errors.New("--wechat-app-id and --wechat-app-secret belong together: give both or neither"))
	}
	if (s.WechatMiniAppID == "") != (s.WechatMiniAppSecret == "") {
		wrong = append(wrong, errors.New("--wechat-mini-app-id and --wechat-mini-app-secret belong together: give both or neither"))
	}
	if s.WechatAppID != "" && s.WechatAppID == s.WechatMiniAppID {
		wrong = append(wrong, errors.New("--wechat-mini-app-id must be the mini program's own: it is the official account's"))
	}
	if len(s.Apps()) > 0 && !httpx.Private(s.WechatURL) {
		wrong = append(wrong, errors.New("--wechat-url must begin with https://, or http:// and a loopback address: the apps' secrets are sent there"))
	}
	return errors.Join(wrong...)
}
