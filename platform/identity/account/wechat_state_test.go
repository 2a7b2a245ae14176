package account_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/wechat"
	"stampede/platform/workshop/require"
)

// TestAttackWeChatCodeOfAnother: a browser that is sent to the page with an attacker's
// code neither logs in to the attacker's account nor adds the attacker's WeChat account.
func TestAttackWeChatCodeOfAnother(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *account.Config, _ *deps) { c.OverTLS = true })
	begun := b.post("wechat/state", nil)
	set := begun.header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "Secure", "SameSite=Lax", "Max-Age=600", "Path=/api/v1"} {
		if !strings.Contains(set, want) {
			t.Errorf("the cookie is %q, without %s", set, want)
		}
	}
	li := b.register(phone, secret)
	attackers, theirs := b.state("")
	state, cookie := b.state("")
	_, value, _ := strings.Cut(cookie, "=")
	calls := b.wechat.Calls()
	for name, c := range map[string]struct{ state, cookie string }{
		"no state":                      {"", cookie},
		"the attacker's state":          {attackers, cookie},
		"no cookie":                     {state, ""},
		"another cookie":                {state, theirs},
		"a made-up state":               {strings.Repeat("0", len(state)), cookie},
		"a state of eleven minutes ago": {lateState(value), cookie},
	} {
		body := func() map[string]any {
			q := b.wechat.Redirect(t, "https://sale.example.com/login", attackers, "open-attacker", "").Query()
			return map[string]any{"code": q.Get("code"), "state": c.state}
		}
		b.post("login/wechat", body(), header("Cookie", c.cookie)).want(t, fmt.Sprintf("login with %s", name), 403, "wechat-state")
		link := body()
		link["refresh_token"] = li.str("refresh_token")
		a := b.call(http.MethodPost, "/api/v1/me/wechat", li.str("access_token"), link, header("Cookie", c.cookie))
		a.want(t, "link with "+name, 403, "wechat-state")
	}
	// Li logs out after asking, and Wang logs in: the same browser, with Li's WeChat.
	lis, lisCookie := b.state(li.str("access_token"))
	wang := b.register("13800138066", secret)
	for asked, cookie := range map[string]string{lis: lisCookie, state: cookie} {
		link := map[string]any{"code": b.wechat.Code("open-li", ""), "state": asked, "refresh_token": wang.str("refresh_token")}
		a := b.call(http.MethodPost, "/api/v1/me/wechat", wang.str("access_token"), link, header("Cookie", cookie))
		a.want(t, "link of an account that has not asked", 403, "wechat-state")
	}
	require.Equal(t, "codes that were exchanged", b.wechat.Calls()-calls, 0)
	own := func() answer {
		return b.post("login/wechat", map[string]any{"code": b.wechat.Code("open-li", ""), "state": state}, header("Cookie", cookie))
	}
	own().want(t, "the browser's own login", 200, "")
	own().want(t, "its state again", 403, "wechat-state")

	mini := setup(t, func(_ *account.Config, d *deps) {
		d.WeChat = exchange(t, b.wechat, wechat.Mini)
	})
	mini.post("login/wechat", map[string]any{"code": b.wechat.Code("open-mini", ""), "state": ""}).want(t, "a mini program", 200, "")
}

// lateState is a state for the holder of a cookie that ended a minute ago, made as the
// server makes one.
func lateState(cookie string) string {
	raw := binary.BigEndian.AppendUint64(nil, uint64(time.Now().Add(-time.Minute).Unix()))
	mac := auth.Keys("account-wechat-state", testKey).MAC(raw, make([]byte, 8), []byte(cookie)) // of no user
	return hex.EncodeToString(append(raw, mac[:24]...))
}
