package browser

import (
	"testing"

	"github.com/chromedp/chromedp"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
	"stampede/platform/workshop/wechattest"
)

// A mini program's code needs no state, because it passes through no address. A link to the page with a stranger's code
// therefore passes for none, also in a shop that has no other app.
func TestAttackMiniProgramCodeInALink(t *testing.T) {
	t.Parallel()
	tab := browser(t)
	wechat := wechattest.New(t)
	in := shop.Serve(t, pgtest.DatabaseURL(t), pgtest.RedisURL(t), "--wechat-url="+wechat.URL, "--wechat-mini-app-id="+wechat.MiniAppID, "--wechat-mini-app-secret="+wechat.Secret)
	do(tab, t, "open a stranger's link", chromedp.Navigate(in.URL+"/?wechat&state=&code="+wechat.Code("open-mallory", "")),
		until(`document.querySelector("#wechat .problem") || document.querySelector("login-box a")`))
	var login string
	do(tab, t, "stay without a login", says("WeChat login is not available"), chromedp.Evaluate(`localStorage.getItem("stampede-login") ?? ""`, &login))
	require.Equal(t, "the login", login, "")
}
