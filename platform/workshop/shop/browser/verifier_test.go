package browser

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// geetestScript plays GeeTest's widget, which its shopper closes at first.
const geetestScript = `let shown = 0;
window.initGeetest4 = ({ captchaId, product }, ready) => {
	const on = {}, captcha = { getValidate: () => ({ lot_number: captchaId + product, captcha_output: "o", pass_token: "p", gen_time: Math.floor(Date.now() / 1000) }),
		showCaptcha: () => setTimeout(shown++ ? on.onSuccess : on.onClose) };
	for (const name of ["onReady", "onSuccess", "onClose", "onError"]) captcha[name] = (f) => { on[name] = f; if (name === "onReady") setTimeout(f); return captcha; };
	ready(captcha);
};`

// geetest answers as GeeTest's server does about what geetestScript gives.
func geetest(secret string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		lot := r.FormValue("lot_number")
		sign := hmac.New(sha256.New, []byte(secret))
		_, _ = io.WriteString(sign, lot) // a hash takes everything
		result := `{"status":"success","result":"fail","reason":"sign_token error"}`
		if lot == r.FormValue("captcha_id")+"bind" && r.FormValue("pass_token") == "p" && r.FormValue("sign_token") == hex.EncodeToString(sign.Sum(nil)) {
			result = `{"status":"success","result":"success","reason":""}`
		}
		_, _ = io.WriteString(w, result) // an error means that the server has left
	}
}

// answering lets a tab load a script in place of an address outside, after the page's own
// policy has allowed it.
func answering(tab context.Context, url, script string) chromedp.Action {
	chromedp.ListenTarget(tab, func(event any) {
		if asked, is := event.(*fetch.EventRequestPaused); is {
			go func() {
				ctx := cdp.WithExecutor(tab, chromedp.FromContext(tab).Target)
				_ = fetch.FulfillRequest(asked.RequestID, http.StatusOK). // an error means that the tab is closed
												WithResponseHeaders([]*fetch.HeaderEntry{{Name: "Content-Type", Value: "text/javascript"}}).
												WithBody(base64.StdEncoding.EncodeToString([]byte(script))).Do(ctx)
			}()
		}
	})
	return fetch.Enable().WithPatterns([]*fetch.RequestPattern{{URLPattern: url}})
}

// TestPageRunsTheVerifiersWidget tests an attempt behind GeeTest's widget, whose script the
// page's policy lets in, and what the page makes of the other widgets' answers, of which
// one fails at first.
func TestPageRunsTheVerifiersWidget(t *testing.T) {
	t.Parallel()
	const id, secret = "647f5ed2ed8acb4be36784e01556bb71", "b09a7aafbfd83f73b35a9b530d0337bf"
	server := httptest.NewServer(geetest(secret))
	t.Cleanup(server.Close)
	tab := browser(t)
	in := shop.Serve(t, pgtest.DatabaseURL(t), pgtest.RedisURL(t),
		"--verifier-kind=geetest", "--verifier-url="+server.URL+"/validate", "--verifier-site-key="+id, "--verifier-secret="+secret)
	item := planAsked(t, in, askingSale{human: "verifier"})
	do(tab, t, "close the widget", answering(tab, "https://static.geetest.com/*", geetestScript), itemPage(t, in, item, 51), click("#buy"),
		until(`document.querySelector("#said").textContent.includes("canceled the check")`))
	do(tab, t, "solve it and get an order", click("#buy"), ordered("pending_payment"))

	for _, widget := range []struct{ provider, script, want string }{
		{
			"tencent", `window.TencentCaptcha = class { constructor(id, done) { this.show = () => setTimeout(done, 0, { ret: 0, ticket: "t" + id, randstr: "@r" }); } }`,
			`data.{"ticket":"tkey","randstr":"@r"}`,
		},
		{
			"aliyun", `let tried; window.initAliyunCaptcha = (o) => { if (!tried) throw new Error(tried = "away"); const { prefix } = window.AliyunCaptchaConfig; o.getInstance({ startTracelessVerification: () => o.success(prefix + o.SceneId) }); }`,
			`data.{"captcha_verify_param":"pkey"}`,
		},
		{
			"siteverify", `window.turnstile = { render: (box, o) => setTimeout(() => o.callback(o.sitekey + o.action + o.cData)) }`,
			`keyrushdata`,
		},
	} {
		var got string
		do(tab, t, "ask "+widget.provider, page.SetBypassCSP(true), chromedp.Navigate(in.URL+"/?item="+item), until(`document.querySelector("sale-card")`),
			chromedp.Evaluate(`(async () => {
				const main = document.querySelector('script[src*="main"]').src, { el, showDialog, t } = await import(main);
				const { askWidget } = await import(new URL("verifier.js", main));
				// No timer of ten seconds is left that would throw the loaded script away.
				const late = {}, wait = setTimeout, stop = clearTimeout;
				let timers = 0;
				window.setTimeout = (f, ms, ...rest) => { if (ms !== 10_000) return wait(f, ms, ...rest); late[--timers] = f; return timers; };
				window.clearTimeout = (id) => { delete late[id]; stop(id); };
				const script = "data:text/javascript," + encodeURIComponent(`+strconv.Quote(widget.script)+`);
				const ask = () => askWidget({ provider: "`+widget.provider+`", script, site_key: "key", prefix: "p", action: "rush", cdata: "data" }, { el, showDialog, t, zh: false }), token = await ask().catch(ask);
				Object.values(late).forEach((f) => f());
				if (!document.querySelector('script[src^="data:"]')) return "the script was thrown away";
				const [data, answer] = token.split(".");
				return answer ? data + "." + atob(answer.replaceAll("-", "+").replaceAll("_", "/")) : token;
			})()`, &got, awaitPromise))
		require.Equal(t, "the answer of "+widget.provider, got, widget.want)
	}
}
