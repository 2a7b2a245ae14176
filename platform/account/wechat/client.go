package wechat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/timeout"

	"stampede/platform/fault"
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
	ErrBadCode     = fault.New(fault.Unauthenticated, "wechat-bad-code", "WeChat does not know this code, or it was used already; get another one from WeChat.")
	ErrUnavailable = fault.New(fault.Unavailable, "wechat-unavailable", "WeChat cannot be asked right now. Try again in a moment, or log in by phone.")
)

// Config is how WeChat is reached.
type Config struct {
	BaseURL string // https://api.weixin.qq.com, without a trailing slash
	AppID   string
	Secret  string
	Kind    Kind
	// Timeout bounds an exchange. Defaults to 3 s: a shopper waits for it.
	Timeout time.Duration
	// BreakerFailures in a row make exchanges fail at once for BreakerDelay, so that
	// a WeChat that hangs does not tie up the server. Default to 5 and 5 s.
	BreakerFailures int
	BreakerDelay    time.Duration
}

// DefaultConfig returns the defaults; AppID and Secret have to be set by the
// caller.
func DefaultConfig() Config {
	return Config{
		BaseURL: "https://api.weixin.qq.com", Kind: Official, Timeout: 3 * time.Second, BreakerFailures: 5, BreakerDelay: 5 * time.Second,
	}
}

// Validate returns every fault of the configuration in one error.
func (c Config) Validate() error {
	var errs []error
	if u, err := url.Parse(c.BaseURL); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		errs = append(errs, errors.New("wechat: the base URL must be an absolute http or https address"))
	}
	if c.AppID == "" || c.Secret == "" {
		errs = append(errs, errors.New("wechat: an app id and its secret are needed"))
	}
	if c.Kind != Official && c.Kind != Mini {
		errs = append(errs, fmt.Errorf("wechat: an app is official or mini, not %q", c.Kind))
	}
	if c.Timeout <= 0 || c.BreakerDelay <= 0 || c.BreakerFailures < 1 {
		errs = append(errs, errors.New("wechat: time-out and breaker are above 0"))
	}
	return errors.Join(errs...)
}

// Client exchanges codes. Safe for concurrent use.
type Client struct {
	cfg      Config
	http     *http.Client
	executor failsafe.Executor[answer]
}

// idleConns stay open between exchanges: more are rarely under way.
const idleConns = 8

// New returns a client. It makes no call.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	// A code that is refused says nothing about WeChat; a busy system does.
	failed := func(a answer, err error) bool {
		return err != nil && !errors.Is(err, context.Canceled) || err == nil && a.Code != 0 && !errors.Is(a.fault(), ErrBadCode)
	}
	breaker := circuitbreaker.NewBuilder[answer]().HandleIf(failed).
		WithFailureThreshold(uint(cfg.BreakerFailures)).WithSuccessThreshold(1).WithDelay(cfg.BreakerDelay).Build() //nolint:gosec // above 0
	return &Client{
		cfg: cfg,
		http: &http.Client{
			// The app's secret is meant for the address in the settings and no other.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: idleConns, IdleConnTimeout: 30 * time.Second},
		},
		executor: failsafe.With[answer](breaker, timeout.New[answer](cfg.Timeout)),
	}, nil
}

// HangUp drops the idle connections to WeChat.
func (c *Client) HangUp() { c.http.CloseIdleConnections() }

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
	a, err := c.executor.WithContext(ctx).GetWithExecution(func(exec failsafe.Execution[answer]) (answer, error) { //nolint:contextcheck // exec's comes from ctx
		return c.ask(exec.Context(), code)
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

// answerBytes bounds an answer; a real one has under 1 KiB.
const answerBytes = 16 << 10

func (c *Client) ask(ctx context.Context, code string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.address(code), nil)
	if err != nil {
		return answer{}, errAddress
	}
	resp, err := c.http.Do(req)
	if err != nil {
		// net/http names the whole address in its error.
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return answer{}, fmt.Errorf("wechat: exchange: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerBytes))
	if err != nil {
		return answer{}, fmt.Errorf("wechat: read answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return answer{}, fmt.Errorf("wechat: status %d", resp.StatusCode)
	}
	var a answer
	if json.Unmarshal(body, &a) != nil {
		return answer{}, errUnreadable // without the text, which holds secrets of the person
	}
	if a.Code == 0 && a.OpenID == "" {
		return answer{}, errUnreadable
	}
	return a, nil
}

var (
	errAddress    = errors.New("wechat: the base URL is not valid")
	errUnreadable = errors.New("wechat: the answer is not one of WeChat's")
)
