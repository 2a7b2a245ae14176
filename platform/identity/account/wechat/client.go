package wechat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/outbound"
)

// Kind is what a WeChat app is.
type Kind string

// The kinds, each with an address of its own for the exchange.
const (
	Official Kind = "official" // a page of an official account: OAuth 2
	Mini     Kind = "mini"     // a mini program: jscode2session
)

// What an exchange answers with.
var (
	ErrBadCode     = fault.New(fault.Unauthenticated, "wechat-bad-code", fault.Titles{"Please log in with WeChat again", "微信授权已失效，请重新授权"}, "WeChat does not know this code, or it was used already; get another one from WeChat.")
	ErrUnavailable = fault.New(fault.Unavailable, "wechat-unavailable", fault.Titles{"WeChat login is not available right now", "微信登录暂不可用"}, "WeChat cannot be asked right now. Try again in a moment, or log in by phone.")
)

// Config is how WeChat is reached.
type Config struct {
	BaseURL string // https://api.weixin.qq.com, without a trailing slash
	AppID   string
	Secret  string
	Kind    Kind
	outbound.Config
}

// DefaultConfig returns the defaults; AppID and Secret have to be set by the
// caller.
func DefaultConfig() Config {
	return Config{BaseURL: "https://api.weixin.qq.com", Kind: Official, Config: outbound.Config{
		Peer: "wechat", Conns: 8, MaxBytes: 16 << 10, // more exchanges are rarely under way, and an answer has under 1 KiB
		Timeout: 3 * time.Second, Attempts: 1, // a shopper waits, and a code is good once
		BreakerFailures: 5, BreakerDelay: 5 * time.Second, // a WeChat that hangs must not tie up the server
	}}
}

// Validate returns every fault of the configuration in one error.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	if u, err := url.Parse(c.BaseURL); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		errs = append(errs, errors.New("wechat: the base URL must be an absolute http or https address"))
	}
	if c.AppID == "" || c.Secret == "" {
		errs = append(errs, errors.New("wechat: an app id and its secret are needed"))
	}
	if c.Kind != Official && c.Kind != Mini {
		errs = append(errs, fmt.Errorf("wechat: an app is official or mini, not %q", c.Kind))
	}
	return errors.Join(errs...)
}

// Client exchanges codes. Safe for concurrent use.
type Client struct {
	*outbound.Client
	cfg Config
}

// New returns a client. It makes no call.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Client{Client: outbound.New(cfg.Config), cfg: cfg}, nil
}

// answer is what WeChat says, of both kinds of app. Code is 0 or left out when
// it worked.
type answer struct {
	Code    int    `json:"errcode"`
	Message string `json:"errmsg"`
	OpenID  string `json:"openid"`
	UnionID string `json:"unionid"`
}

// The codes of WeChat's that say something about the shopper's code. Any other
// is about the shop or about WeChat: -1 busy, 40013 and 40125 a wrong app id or
// secret, 45011 asked too often.
const (
	codeInvalid = 40029
	codeUsed    = 40163
	codeExpired = 42003
	codeBlocked = 40226 // a person whom WeChat has blocked
)

// fault is what an answer with a code means.
func (a answer) fault() *fault.Error {
	cause := fmt.Errorf("wechat: errcode %d", a.Code) // errmsg repeats parts of the request
	switch a.Code {
	case codeInvalid, codeUsed, codeExpired, codeBlocked:
		return ErrBadCode.Because(cause)
	default:
		return ErrUnavailable.After(retryAfter).Because(cause)
	}
}

// retryAfter is when asking WeChat again makes sense: its limits are by the
// minute, its hiccups shorter.
const retryAfter = 30 * time.Second

// mostCode bounds a code; WeChat's have 32 characters today.
const mostCode = 128

// Exchange returns who a code is about: ErrBadCode for a code that WeChat does
// not take, ErrUnavailable when it does not say.
func (c *Client) Exchange(ctx context.Context, code string) (Identity, error) {
	if code == "" || len(code) > mostCode {
		return Identity{}, ErrBadCode
	}
	var a answer
	err := c.Do(ctx, outbound.Request{URL: c.address(code)}, func(r outbound.Reply) (err error) {
		a, err = read(r)
		return err
	})
	switch {
	case err != nil:
		return Identity{}, ErrUnavailable.After(retryAfter).Because(err)
	case a.Code != 0:
		return Identity{}, a.fault()
	}
	return Identity{AppID: c.cfg.AppID, OpenID: a.OpenID, UnionID: a.UnionID}, nil
}

// address is where a code is exchanged. It holds the app's secret, as WeChat
// wants it, so it must not appear in an error.
func (c *Client) address(code string) string {
	q := url.Values{"appid": {c.cfg.AppID}, "secret": {c.cfg.Secret}, "grant_type": {"authorization_code"}}
	path := "/sns/oauth2/access_token"
	if c.cfg.Kind == Mini {
		path = "/sns/jscode2session"
		q.Set("js_code", code)
	} else {
		q.Set("code", code)
	}
	return c.cfg.BaseURL + path + "?" + q.Encode()
}

// read reads an answer. One that refuses the code is good: it says nothing about
// WeChat, while a busy system does.
func read(r outbound.Reply) (answer, error) {
	if r.Status != http.StatusOK {
		return answer{}, fmt.Errorf("wechat: status %d", r.Status)
	}
	var a answer
	if json.Unmarshal(r.Body, &a) != nil || a.Code == 0 && a.OpenID == "" {
		return answer{}, errUnreadable // without the text, which holds secrets of the person
	}
	if f := a.fault(); a.Code != 0 && !errors.Is(f, ErrBadCode) {
		return answer{}, f
	}
	return a, nil
}

var errUnreadable = errors.New("wechat: the answer is not one of WeChat's")
