package credential

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account/guard"
)

const (
	// stateLifetime is enough to agree in WeChat, and a code lives half as long.
	stateLifetime = 10 * time.Minute
	// stateCookie holds the half of a state that stays in the browser.
	stateCookie = "stampede_wechat"
	// stateBytes of the MAC keep a state within the 128 letters and digits that
	// WeChat passes on.
	stateBytes = 24
)

var errWeChatState = fault.New(fault.Forbidden, "wechat-state",
	fault.T("Please log in with WeChat again", "微信授权已失效，请重新授权"),
	fault.T("This browser did not ask for this code, or asked with another account or more than ten minutes ago. Get "+
		"a state from auth/wechat/state, give it to WeChat, and send it with the code and the cookie.",
		"该授权码不是由本浏览器发起，或由其他账号、十分钟前发起。请从 auth/wechat/state 获取 state 交给微信，并与授权码和 Cookie 一起提交。"),
	fault.T("Start the WeChat login again.", "请重新发起微信登录。"))

// stateOf is the state that WeChat gives back with a code, in hex: when it ends
// and a MAC that binds it to a browser's cookie and to the user who asked, 0 before a
// login.
func stateOf(key []byte, cookie string, user int64, end time.Time) string {
	raw := binary.BigEndian.AppendUint64(nil, uint64(end.Unix())) //nolint:gosec // a time after 1970
	mac := hmac.New(sha256.New, key)
	mac.Write(raw)
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(user))) //nolint:gosec // bits of an id
	mac.Write([]byte(cookie))
	return hex.EncodeToString(append(raw, mac.Sum(nil)[:stateBytes]...))
}

// useState refuses a code that another client asked for: an attacker's link must not
// log a user in to the attacker's account. It refuses a code that another account asked
// for as well: one that has logged in since in the same browser must not get the WeChat
// account of the other. A state is valid once. Codes of a mini program pass through no
// URL and need none.
func (s *Service) useState(ctx context.Context, state, cookie string) error {
	if !s.WeChat.Redirects() {
		return nil
	}
	raw, err := hex.DecodeString(state)
	if err != nil || len(raw) != 8+stateBytes || cookie == "" {
		return errWeChatState
	}
	end := time.Unix(int64(binary.BigEndian.Uint64(raw)), 0) //nolint:gosec // verified below
	for _, key := range s.states {
		if !hmac.Equal([]byte(stateOf(key, cookie, auth.From(ctx).UserID, end)), []byte(state)) || time.Now().After(end) {
			continue
		}
		err := s.Guard.Take(ctx, ratelimit.Ask{Rule: ratelimit.Rule{Name: "wechat-state", Count: 1, Per: stateLifetime}, Key: state})
		if guard.IsRefused(err) {
			return errWeChatState
		}
		return err
	}
	return errWeChatState
}

// StateInput is the cookie of a state; inputs embed it. It is exported because huma
// requires that of embedded fields.
type StateInput struct {
	StateCookie string `cookie:"stampede_wechat" maxLength:"64" doc:"Set by auth/wechat/state"`
}

type stateOutput struct {
	CacheControl string      `header:"Cache-Control"`
	SetCookie    http.Cookie `header:"Set-Cookie"`
	Body         struct {
		State     string `json:"state" doc:"For WeChat's authorization URL, or its SDK, and then for the login"`
		URL       string `json:"url,omitempty" doc:"Where a page inside WeChat sends its shopper, who returns to the shop's page with a code; left out for a mini program"`
		ExpiresIn int64  `json:"expires_in" doc:"Seconds" example:"600"`
	} `nameHint:"WeChatState"`
}

// startWeChat keeps the browser's cookie, which may belong to a login in another tab.
func (s *Service) startWeChat(ctx context.Context, in *StateInput) (*stateOutput, error) {
	if s.WeChat == nil {
		return nil, errNoWeChat
	}
	cookie := cmp.Or(in.StateCookie, rand.Text())
	out := &stateOutput{CacheControl: httpx.NoStore, SetCookie: http.Cookie{ //nolint:gosec // not Secure without https only
		Name: stateCookie, Value: cookie, Path: "/api/v1", MaxAge: int(stateLifetime.Seconds()),
		HttpOnly: true, Secure: s.Store.Config.OverTLS, SameSite: http.SameSiteLaxMode,
	}}
	out.Body.State = stateOf(s.states[0], cookie, auth.From(ctx).UserID, time.Now().Add(stateLifetime))
	out.Body.URL = s.WeChat.AuthorizeURL(out.Body.State)
	out.Body.ExpiresIn = int64(stateLifetime.Seconds())
	return out, nil
}
