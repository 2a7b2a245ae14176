package browser

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
	"stampede/platform/workshop/wechattest"
)

// TestPhoneLogsDesktopIn: the desktop shows a code; the phone, not logged in,
// logs in by SMS, sees which device asks, and confirms. Then two tabs of the
// desktop need a new token at the same time.
func TestPhoneLogsDesktopIn(t *testing.T) {
	t.Parallel()
	desktop := browser(t)
	wechat := wechattest.New(t)
	in := shop.Serve(t, pgtest.DatabaseURL(t), pgtest.RedisURL(t), "--sandbox-sms", "--refund-approval-above=1", "--wechat-url="+wechat.URL, "--wechat-app-id="+wechat.AppID, "--wechat-app-secret="+wechat.Secret,
		"--shop-name=小铺子", "--shop-terms-url=https://example.com/terms")
	lookAtAnEmptyShop(desktop, t, in)
	planAsked(t, in, askingSale{human: "none", opensIn: time.Minute})
	do(desktop, t, "see the session", until(`document.querySelector(".session")?.textContent.includes("Phone")`))
	var address string
	do(desktop, t, "show the code",
		chromedp.Navigate(in.URL+"/"), click("login-box button"), until(`document.querySelector('dialog a[href="https://example.com/terms"]')`), click(".tabs button:nth-child(3)"),
		until(`document.querySelector("qr-login img")?.naturalWidth === 256`),
		chromedp.Evaluate(`document.querySelector("qr-login").dataset.url`, &address))

	phone := visitor(desktop, t)
	do(phone, t, "scan it without a login",
		chromedp.Navigate(address), until(`document.querySelector('#confirm[data-state="login"] form')`),
		chromedp.Evaluate(`document.querySelector("form").phone.value = "13800138000"`, nil), click("form button[type=button]"),
		until(`document.querySelector("form").textContent.includes("Code sent")`))
	do(phone, t, "log in by SMS and be asked",
		chromedp.Evaluate(`dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }))`, nil), // back from another page, without a login
		chromedp.Evaluate(`document.querySelector("form").code.value = "`+shop.SMSCode(t, in, "+8613800138000")+`"`, nil), click("form .end button"),
		until(`document.querySelector('#confirm[data-state="asked"]')?.textContent.includes("Chrome, Linux")`))
	readable(phone, t, "confirm")
	do(desktop, t, "see that it was scanned", until(`document.querySelector("qr-login").textContent.includes("Enter this on your phone")`))
	var number string
	do(desktop, t, "show a number", chromedp.Evaluate(`document.querySelector("qr-login .number").textContent`, &number))
	do(phone, t, "confirm with the number that the desktop shows",
		chromedp.Evaluate(`document.querySelector("#confirm input[name=number]").value = "`+number+`"`, nil), click("#allow"), until(`document.querySelector('#confirm[data-state="done"]')`))
	do(desktop, t, "be logged in", until(`document.querySelector("login-box").textContent.includes("138****8000") && !document.querySelector("dialog")`))

	// The token is made to look old, and both tabs refresh it at the same moment.
	other, cancel := chromedp.NewContext(desktop)
	defer cancel()
	do(other, t, "open a second tab", chromedp.Navigate(in.URL+"/"), until(`document.querySelector("login-box").textContent.includes("138****8000")`))
	const renew = `(async () => {
		const { bearer } = await import(document.querySelector("script[src]").src)
		const channel = new BroadcastChannel("test")
		window.renewed = new Promise((done) => { channel.onmessage = async () => done(Boolean(await bearer())) })
	})()`
	do(desktop, t, "get ready", chromedp.Evaluate(renew, nil, awaitPromise))
	do(other, t, "get ready", chromedp.Evaluate(renew, nil, awaitPromise))
	do(desktop, t, "let the token end", chromedp.Evaluate(`{
		const login = JSON.parse(localStorage.getItem("stampede-login"))
		localStorage.setItem("stampede-login", JSON.stringify({ ...login, until: 0 }))
		const channel = new BroadcastChannel("test")
		channel.postMessage("now")
		channel.close()
	}`, nil))
	refreshes := 0
	for name, tab := range map[string]*struct {
		ok    bool
		asked int
	}{"desktop": {}, "other": {}} {
		ctx := desktop
		if name == "other" {
			ctx = other
		}
		do(ctx, t, "renew the token", chromedp.Evaluate(`window.renewed`, &tab.ok, awaitPromise),
			chromedp.Evaluate(`performance.getEntriesByType("resource").filter((r) => r.name.endsWith("/auth/refresh")).length`, &tab.asked))
		require.Equal(t, name+" is logged in", tab.ok, true)
		refreshes += tab.asked
	}
	require.Equal(t, "refreshes by two tabs", refreshes, 1)
	for _, refuses := range []string{`put: () => Promise.reject(new Error("the disk is full")), match: async () => undefined`, ``} {
		var renewed bool
		do(desktop, t, "renew it without a cache", chromedp.Evaluate(`(async () => {
			const full = { `+refuses+` }, login = JSON.parse(localStorage.getItem("stampede-login"))
			caches.open = async () => full.put ? full : Promise.reject(new Error("no cache"))
			localStorage.setItem("stampede-login", JSON.stringify({ ...login, until: 0 }))
			const { bearer } = await import(document.querySelector("script[src]").src)
			return Boolean(await bearer()) && JSON.parse(localStorage.getItem("stampede-login")).refresh !== login.refresh
		})()`, &renewed, awaitPromise))
		require.Equal(t, "renewed without a cache", renewed, true)
	}
	do(desktop, t, "see both devices in the account", chromedp.Navigate(in.URL+"/?account"), until(`document.querySelectorAll("#logins li").length === 2 && document.querySelectorAll("#logins li button").length === 1`))
	do(other, t, "log out", click("login-box button"))
	keepsAnAccount(visitor(desktop, t), t, in)
	comesFromWeChat(visitor(desktop, t), t, in)
	do(desktop, t, "be logged out as well", until(`document.querySelector("login-box").textContent.includes("Log in")`))
	do(desktop, t, "see on a page that the browser kept what changed since", until(`location.search === ""`), chromedp.Evaluate(`{
		localStorage.setItem("stampede-login", JSON.stringify({ user: 1, phone: "139****9000", until: 8e15 })) // no event in the tab that writes it
		dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }))
	}`, nil), until(`document.querySelector("login-box").textContent.includes("139****9000")`), chromedp.Evaluate(`localStorage.removeItem("stampede-login")`, nil))
	sale := in.Plan(t, 5, time.Second)
	in.AwaitLoaded(t, sale.ItemID)
	worksInTheOffice(desktop, t, in, sale)
}
