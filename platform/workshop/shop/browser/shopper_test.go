package browser

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// faintTexts lists the texts that stand out from what is behind them by less than 4.5 to 1,
// those of disabled controls too. Of a gradient each stop counts. Beneath an open dialog
// nothing is read.
const faintTexts = `(() => {
	const colors = (text) => [...text.matchAll(/(?:rgba?|color\(srgb)[( ]([^)]*)\)/g)].map(([whole, parts]) => {
		const n = parts.split(/[ ,/]+/).map(Number), unit = whole.startsWith("color") ? 255 : 1
		return { c: n.slice(0, 3).map((v) => v * unit), a: n[3] ?? 1 }
	})
	const over = (top, under) => under.map((v, i) => top.c[i] * top.a + v * (1 - top.a))
	const behind = (node) => {
		if (!node) return [[255, 255, 255]]
		const style = getComputedStyle(node), [flat] = colors(style.backgroundColor), drawn = colors(style.backgroundImage)
		const under = flat.a === 1 && drawn.length === 0 ? [flat.c] : behind(node.matches("dialog") ? null : node.parentElement).map((below) => over(flat, below))
		return drawn.length > 0 ? drawn.flatMap((stop) => under.map((below) => over(stop, below))) : under
	}
	const light = (c) => c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0)
	const ratio = (a, b) => { const [low, high] = [light(a), light(b)].sort((x, y) => x - y); return (high + 0.05) / (low + 0.05) }
	const page = ` + deep + `, root = [...page.querySelectorAll("dialog[open]")].at(-1) ?? page.body ?? page, shown = []
	for (let walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT), text; (text = walk.nextNode());) if (text.data.trim()) shown.push([text.parentElement, text.data.trim()])
	for (const field of root.querySelectorAll("input:not([type=checkbox], [type=range]), textarea")) if (field.value) shown.push([field, field.value])
	return shown.filter(([node]) => node.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && !node.closest("script, style, noscript, option") && node.getClientRects().length).flatMap(([node, text]) => {
		const [ink] = colors(getComputedStyle(node).color)
		for (let up = node; up; up = up.parentElement) ink.a *= Number(getComputedStyle(up).opacity)
		const worst = Math.min(...behind(node).map((below) => ratio(over(ink, below), below)))
		return worst >= 4.5 ? [] : [worst.toFixed(2) + " " + text.slice(0, 40)]
	})
})()`

// controls are the roles that a person acts on.
var controls = []string{"button", "link", "textbox", "searchbox", "checkbox", "switch", "combobox", "slider", "spinbutton", "radio", "DisclosureTriangle"}

// readable checks a state of a page: each control has a name for those who hear the page,
// each text stands out in light and dark, and a phone shows it without scrolling sideways.
// It writes pictures of it to the folder of SCREENSHOTS.
func readable(tab context.Context, t *testing.T, state string) {
	t.Helper()
	var flaws []string
	named := chromedp.ActionFunc(func(ctx context.Context) error {
		type text struct {
			Value any `json:"value"`
		}
		var tree struct {
			Nodes []struct {
				Ignored bool `json:"ignored"`
				Role    text `json:"role"`
				Name    text `json:"name"`
			} `json:"nodes"`
		}
		// Not by the library's types, which refuse properties that they do not know.
		if err := cdp.Execute(ctx, accessibility.CommandGetFullAXTree, nil, &tree); err != nil {
			return err
		}
		found := false
		for _, n := range tree.Nodes {
			role, _ := n.Role.Value.(string)
			found = found || role == "button"
			if name, _ := n.Name.Value.(string); !n.Ignored && slices.Contains(controls, role) && strings.TrimSpace(name) == "" {
				flaws = append(flaws, "a "+role+" has no name")
			}
		}
		if !found {
			flaws = append(flaws, "those who hear the page find no button")
		}
		return nil
	})
	steps := chromedp.Tasks{named}
	for _, scheme := range []string{"light", "dark"} {
		var faint []string
		steps = append(steps, emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
			chromedp.Evaluate(faintTexts, &faint),
			chromedp.ActionFunc(func(context.Context) error {
				for _, text := range faint {
					flaws = append(flaws, scheme+": "+text)
				}
				return nil
			}))
		if folder := os.Getenv("SCREENSHOTS"); folder != "" {
			for _, width := range []int64{320, 390, 1280} {
				var png []byte
				steps = append(steps, emulation.SetDeviceMetricsOverride(width, 800, 1, false), chromedp.FullScreenshot(&png, 100), chromedp.ActionFunc(func(context.Context) error {
					return os.WriteFile(folder+"/"+state+"-"+strconv.FormatInt(width, 10)+"-"+scheme+".png", png, 0o600)
				}))
			}
		}
	}
	for _, width := range []int64{320, 390} {
		var wide bool
		steps = append(steps, emulation.SetDeviceMetricsOverride(width, 800, 1, false), chromedp.Evaluate(`[document.documentElement, ...`+deep+`.querySelectorAll("dialog[open]")].some((box) => box.scrollWidth > box.clientWidth)`, &wide),
			chromedp.ActionFunc(func(context.Context) error {
				if wide {
					flaws = append(flaws, "it is wider than "+strconv.FormatInt(width, 10)+" px")
				}
				return nil
			}))
	}
	do(tab, t, "look at "+state, append(steps, emulation.SetEmulatedMedia(), emulation.ClearDeviceMetricsOverride())...)
	for _, flaw := range flaws {
		t.Errorf("%s: %s", state, flaw)
	}
}

// enter types a text into a field of the page's dialog, or of the page.
func enter(field, text string) chromedp.Action {
	return chromedp.Tasks{until(`document.querySelector('form [name="` + field + `"]')`), chromedp.Evaluate(`document.querySelector('form [name="`+field+`"]').value = `+strconv.Quote(text), nil)}
}

// keepsAnAccount makes an account by SMS, gives it a password, changes that, and deletes
// the account, all on the Chinese pages.
func keepsAnAccount(tab context.Context, t *testing.T, in *shop.Instance) {
	t.Helper()
	const phone, first, second = "13800138222", "a shopper's long password", "another long password"
	sendCode := chromedp.Tasks{click("form .bottom button"), says("验证码已发送")}
	do(tab, t, "open the login in Chinese", chromedp.ActionFunc(inChinese), chromedp.Navigate(in.URL+"/"), until(`document.querySelector("#list .card")`))
	readable(tab, t, "sessions-zh")
	do(tab, t, "be told that a new number gets an account", click("login-box button"), says("自动创建账号"))
	readable(tab, t, "login-zh")
	do(tab, t, "look at the password form", click(".tabs button:nth-child(2)"), click("#forgot"), says("设置新密码"))
	readable(tab, t, "login-reset-zh")
	do(tab, t, "look at the code to scan", missesScript("qr.js", ".tabs button:nth-child(3)", "无法连接服务器"), until(`document.querySelector("qr-login img")?.naturalWidth === 256`))
	readable(tab, t, "login-qr-zh")
	do(tab, t, "ask for a code", click(".tabs button:nth-child(1)"), enter("phone", phone), sendCode)
	readable(tab, t, "login-code-zh")
	code := shop.SMSCode(t, in, "+86"+phone)
	do(tab, t, "log in by SMS", enter("code", code), click("form .end button"), until(`!document.querySelector("dialog")`),
		chromedp.Navigate(in.URL+"/?account"), says("您还没有设置密码"))
	readable(tab, t, "account-zh")
	do(tab, t, "take no reminders, and keep that", click("#messages .switch"), chromedp.Evaluate(`document.querySelector("#messages select").value = "en"`, nil), click("#messages button"), says("已保存"),
		chromedp.Reload(), until(`document.querySelector("#messages input")?.checked === false && document.querySelector("#messages select").value === "en"`))
	readable(tab, t, "account-messages-zh")
	do(tab, t, "ask for a code for a password", click("#password button"), enter("phone", phone), sendCode)
	reset := shop.SMSCode(t, in, "+86"+phone, code)
	do(tab, t, "set a password", enter("code", reset), enter("new_password", first), click("dialog form .end button"), until(`!document.querySelector("dialog")`),
		until(`document.querySelector("#password [name=old_password]")`))
	do(tab, t, "change it", enter("old_password", "not the password"), enter("new_password", second), click("#password form button"), until(`document.querySelector("#password [name=old_password] + .flaw")`))
	readable(tab, t, "account-refused-zh")
	do(tab, t, "change it with the right one", enter("old_password", first), click("#password form button"), says("已修改"))
	do(tab, t, "ask to be deleted", click("#erase button"), enter("phone", phone), chromedp.Evaluate(`document.querySelector("dialog [name=phone]").value = "`+phone+`"`, nil), click("dialog form .bottom button"), says("验证码已发送"))
	readable(tab, t, "account-erase-zh")
	do(tab, t, "be deleted", chromedp.Evaluate(`document.querySelector("dialog [name=code]").value = "`+shop.SMSCode(t, in, "+86"+phone, code, reset)+`"`, nil), click("dialog form .end button"),
		until(`document.querySelector("#erased") && document.querySelector("login-box").textContent === "登录"`))
	readable(tab, t, "account-erased-zh")
}

// paysAtTheBank presses the button of the sandbox's page and returns to the order.
func paysAtTheBank() chromedp.Action {
	return chromedp.Tasks{
		click(`main[data-state="open"] button[value="pay"]`), click(`main[data-state="captured"] p a`), until(`document.querySelector("#order")?.dataset.status === "paid"`),
	}
}

// itemsFail answers the page's requests for items with the status that the tab's storage has, if it has one.
const itemsFail = `{ const real = fetch; window.fetch = async (...request) => sessionStorage.items && String(request[0]).includes("/items/")
	? new Response("{}", { status: Number(sessionStorage.items) }) : real(...request) }`

// settlesAnOrder takes a shopper on the Chinese pages from a unit to its refund: details and
// a store, a coupon, a return from the bank without a payment and one with it, the code for
// the store, a dispute with the shop's answer, and what a cut network says meanwhile.
func settlesAnOrder(tab context.Context, t *testing.T, in *shop.Instance) {
	t.Helper()
	const user = 41
	type object = map[string]any
	operator := shop.Mint(t, 1, auth.Operator)
	ask := func(path string, body object) object {
		t.Helper()
		status, doc := in.Call(t, http.MethodPost, "/api/v1/admin/"+path, operator, body)
		if status >= http.StatusBadRequest {
			t.Fatalf("%s: %d %v", path, status, doc)
		}
		return doc
	}
	item := planAsked(t, in, askingSale{human: "none", refundHours: 1, checkout: object{"ways": []string{"delivery", "pickup"}, "name": "required", "phone": "required", "address": "required"}})
	ask("stores", object{"name": "旗舰店", "address": "南京东路 1 号", "hours": "10:00–22:00"})
	yuan := func(amount int) object { return object{"amount": amount, "currency": "CNY"} }
	coupon, _ := ask("coupons", object{"name": "满减券", "amount_off": yuan(1000), "threshold": yuan(0), "valid_days": 7, "total": 5})["id"].(string)
	ask("coupons/"+coupon+"/activate", nil)
	ask("coupons/"+coupon+"/issue", object{"user_ids": []string{strconv.Itoa(user)}, "without_account": true})

	total := func(text string) chromedp.Action {
		return until(`document.querySelector("#pay")?.textContent === ` + strconv.Quote(text))
	}
	do(tab, t, "buy in Chinese", chromedp.ActionFunc(inChinese), itemPage(t, in, item, user), until(`document.querySelector("#buy:not([disabled])")`))
	readable(tab, t, "item-zh")
	do(tab, t, "be ordered", click("#buy"), ordered("pending_payment"))
	readable(tab, t, "won-zh")
	do(tab, t, "choose a store", missesScript("pay.js", "#buy", "无法连接服务器"), until(`document.querySelector("dialog [name=way]")`),
		chromedp.Evaluate(`{ const way = document.querySelector("dialog [name=way]"); way.value = "pickup"; way.dispatchEvent(new Event("change", { bubbles: true })) }`, nil), enter("name", "王小明"), enter("phone", "1380013"), total("支付 ¥89.00"))
	readable(tab, t, "sheet-zh")
	renews, cancel := chromedp.NewContext(tab)
	defer cancel()
	do(tab, t, "listen to another tab", chromedp.Evaluate(`addEventListener("storage", (e) => { window.heard = e.newValue })`, nil))
	do(renews, t, "renew the token", chromedp.Navigate(in.URL+"/static/style.css"), chromedp.Evaluate(`{
		const login = JSON.parse(localStorage.getItem("stampede-login"))
		localStorage.setItem("stampede-login", JSON.stringify({ ...login, until: login.until + 1 }))
	}`, nil))
	do(tab, t, "keep the sheet and what was typed", until(`window.heard`), until(`document.querySelector("dialog [name=name]")?.value === "王小明"`))
	do(tab, t, "read at the field what is wrong with it", click("#pay"), until(`document.activeElement.name === "phone" && document.activeElement.matches("[aria-invalid=true]") &&
		document.getElementById(document.activeElement.getAttribute("aria-describedby")).textContent.startsWith("请输入正确的手机号")`))
	readable(tab, t, "flaw-zh")
	choose := func(coupon string) chromedp.Action {
		return chromedp.Evaluate(`{ const one = document.querySelector("dialog [name=coupon]"); one.selectedIndex = `+coupon+`; one.dispatchEvent(new Event("change", { bubbles: true })) }`, nil)
	}
	var no string
	do(tab, t, "see what it costs without, and go to the bank", choose("1"), total("支付 ¥99.00"), choose("0"), total("支付 ¥89.00"), chromedp.Evaluate(wholeNumber, &no),
		enter("phone", "13800138000"), click("#pay"), until(`document.querySelector("main[data-state=open] .money")?.textContent.includes("89.00")`))
	do(tab, t, "check out though the item is forgotten",
		onEachDocument(itemsFail), chromedp.Evaluate(`sessionStorage.items = 404`, nil), chromedp.Navigate(in.URL+"/?order="+no),
		until(`document.querySelector("#order") && document.querySelector("#cancel:not([disabled])")?.checkVisibility({ visibilityProperty: true })`),
		click("#buy"), until(`document.querySelector("#pay")`), click("dialog .close"))
	readable(tab, t, "order-without-item-zh")
	do(tab, t, "return without a payment", chromedp.Evaluate(`delete sessionStorage.items`, nil), chromedp.Navigate(in.URL+"/?order="+no),
		until(`document.querySelector("#note")?.textContent.includes("如未付款")`))
	readable(tab, t, "order-unpaid-zh")
	do(tab, t, "lose the network and find it again", offline(true), says("您的订单与付款不受影响"), offline(false), until(`!document.body.innerText.includes("您的订单与付款不受影响")`))
	do(tab, t, "pay", click("#buy"), click("#pay"), paysAtTheBank(), until(`document.querySelector("#pickup img")?.naturalWidth > 100 && document.querySelector("#order").textContent.includes("旗舰店")`))
	readable(tab, t, "order-paid-zh")
	do(tab, t, "see it while the server is too busy for items", chromedp.Evaluate(`sessionStorage.items = 503`, nil), chromedp.Reload(),
		until(`document.querySelector("#order")?.dataset.status === "paid"`), chromedp.Evaluate(`delete sessionStorage.items`, nil))
	do(tab, t, "write to the shop", click("#dispute"), enter("reason", "盒子压坏了。"), click("dialog form .end button"), until(`document.querySelector("#talk")?.textContent.includes("盒子压坏了")`))
	_, disputes := in.Call(t, http.MethodGet, "/api/v1/orders/"+no+"/disputes", shop.Mint(t, user, auth.Shopper), nil)
	first, _ := disputes["data"].([]any)[0].(object)
	number, _ := first["dispute_no"].(string)
	ask("disputes/"+number+"/answers", object{"text": "很抱歉，请申请退款。"})
	do(tab, t, "read the shop's answer and write again", until(`document.querySelector("#talk")?.textContent.includes("很抱歉")`),
		click("#reply"), enter("text", "好的，谢谢。"), click("dialog form .end button"), until(`document.querySelector("#talk")?.textContent.includes("好的，谢谢")`))
	readable(tab, t, "order-dispute-zh")
	do(tab, t, "ask for the money back", click("#refund"), click("dialog form .end button"), until(`document.querySelector("#order")?.dataset.status === "refunded" && document.querySelector("#again")`))
	readable(tab, t, "order-refunded-zh")
	do(tab, t, "find it in the list", chromedp.Navigate(in.URL+"/?orders"), until(`document.querySelector("#orders a .go")?.textContent === "已退款"`))
	readable(tab, t, "orders-zh")
}

// insideWeChat makes a tab say that it is WeChat's own browser, in Chinese.
func insideWeChat(tab context.Context) error {
	return emulation.SetUserAgentOverride("Mozilla/5.0 (Linux; Android 14) Chrome/130 Mobile MicroMessenger/8.0.50").WithAcceptLanguage("zh-CN").Do(tab)
}

// comesFromWeChat logs a shopper in by WeChat's page, who then adds a phone; a reload sends
// the code no second time, and a shopper who does not agree is told what to do.
func comesFromWeChat(tab context.Context, t *testing.T, in *shop.Instance) {
	t.Helper()
	const phone = "13800138333"
	do(tab, t, "refuse in WeChat", chromedp.ActionFunc(insideWeChat), chromedp.Navigate(in.URL+"/?wechat&state=0"), says("您取消了微信授权"))
	readable(tab, t, "wechat-refused-zh")
	do(tab, t, "open the login within WeChat", chromedp.Navigate(in.URL+"/?orders"), until(requests("/auth/wechat/state")+` === 1`), until(`document.querySelector("dialog")`),
		chromedp.Evaluate(`document.querySelector("dialog").close()`, nil), until(`!document.querySelector("dialog")`), click("login-box button"), until(`document.querySelector("#wechat")`))
	readable(tab, t, "login-wechat-zh")
	do(tab, t, "agree, and be back where it began", click("#wechat"), until(`location.search === "?orders" && document.querySelector("login-box a") && document.querySelector("#orders .nothing")`),
		chromedp.Navigate(in.URL+"/?account"), until(`document.querySelector("#me")?.textContent.includes("已绑定")`))
	readable(tab, t, "account-wechat-zh")
	do(tab, t, "be told that a code to a phone deletes the account", click("#erase button"), says("请先绑定手机号"), click("dialog .close"))
	do(tab, t, "ask for a code", enter("phone", phone), click("#phone .bottom button"), says("验证码已发送"))
	do(tab, t, "add the phone", enter("code", shop.SMSCode(t, in, "+86"+phone)), click("#phone .end button"), until(`document.querySelector("#me")?.textContent.includes("138****8333")`))
}

// unseen is why a person at the keyboard does not see where the focus is; "" if it is seen.
const unseen = `(() => {
	const at = document.activeElement
	if (!at || at === document.body) return "" // behind the last one the browser's own controls follow
	const { outlineStyle, outlineWidth } = getComputedStyle(at), box = at.getBoundingClientRect()
	const what = at.outerHTML.slice(0, 120)
	if (outlineStyle !== "auto" && (outlineStyle === "none" || parseFloat(outlineWidth) < 2)) return "no ring around " + what
	const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2)
	return at.contains(top) || top?.contains(at) && top.matches("label, li, p, dialog") ? "" : "something is above " + what
})()`

// tabTo presses Tab until an element has the focus, and sees each stop on the way.
func tabTo(t *testing.T, selector string) chromedp.Action {
	t.Helper()
	return chromedp.ActionFunc(func(tab context.Context) error {
		for range 40 {
			var flaw string
			var there bool
			if err := (chromedp.Tasks{chromedp.KeyEvent(kb.Tab), chromedp.Evaluate(unseen, &flaw), chromedp.Evaluate("document.activeElement.matches("+strconv.Quote(selector)+")", &there)}).Do(tab); err != nil {
				return err
			}
			if flaw != "" {
				t.Errorf("on the way to %s: %s", selector, flaw)
			}
			if there {
				return nil
			}
		}
		return fmt.Errorf("40 presses of Tab do not reach %s", selector)
	})
}

// still checks that nothing of the page has moved since it was loaded, also after input.
func still(tab context.Context, t *testing.T, page string) {
	t.Helper()
	var shifted shift
	do(tab, t, "see whether the page of "+page+" moved", moved(&shifted))
	require.Equal(t, "shift of the page of "+page, shifted, unmoved)
}

// buysByKeyboard takes a shopper on a phone-sized page from the sessions to a paid order
// without a pointer.
func buysByKeyboard(tab context.Context, t *testing.T, in *shop.Instance) {
	t.Helper()
	item := planAsked(t, in, askingSale{human: "none"})
	link, enter := `a[href="/?item=`+item+`"]`, chromedp.KeyEvent(kb.Enter)
	var no string
	do(tab, t, "choose an item", emulation.SetFocusEmulationEnabled(true), emulation.SetDeviceMetricsOverride(390, 560, 1, false), onEachDocument(everyShiftCounted), itemPage(t, in, item, 51), chromedp.Navigate(in.URL+"/?sessions"),
		until(`document.querySelector('`+link+`')`), tabTo(t, link))
	still(tab, t, "the sessions")
	do(tab, t, "open what there is to read", enter, until(`document.querySelector("#buy:not([disabled])")`), tabTo(t, "summary"), enter, until(`document.querySelector("details[open]")`))
	do(tab, t, "buy", tabTo(t, "#buy"), chromedp.KeyEvent(" "), ordered("pending_payment"), until(`document.activeElement.id === "buy"`))
	do(tab, t, "think about a cancellation", tabTo(t, "#cancel"), enter, until(`document.querySelector("dialog") && document.activeElement.textContent === "Keep order"`), enter,
		until(`!document.querySelector("dialog") && document.activeElement.id === "cancel"`))
	still(tab, t, "the item")
	do(tab, t, "read its number", chromedp.Evaluate(wholeNumber, &no))
	do(tab, t, "look at the order that waits", chromedp.Navigate(in.URL+"/?order="+no), until(`document.querySelector("#order") && document.querySelector("#buy:not([disabled])")`))
	still(tab, t, "the order to pay")
	do(tab, t, "pay and return", tabTo(t, "#buy"), enter, until(`document.activeElement.id === "pay"`), enter, until(`document.activeElement.value === "pay"`), enter,
		until(`document.querySelector('main[data-state="captured"] p a')`), tabTo(t, "main p a"), enter, until(`document.querySelector("#order")?.dataset.status === "paid"`))
	still(tab, t, "the paid order")
	do(tab, t, "report a problem", tabTo(t, "#dispute"), enter, until(`document.activeElement.name === "reason"`), chromedp.KeyEvent("Broken."), tabTo(t, "dialog form .end button"), enter,
		until(`document.querySelector("#talk")`), until(`document.activeElement.matches("h2")`))
}
