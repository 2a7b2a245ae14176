package browser

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/pquerna/otp/totp"

	"stampede/platform/workshop/loadgen"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// flawOfPage is what went wrong on a page of the office, or does not fit a phone.
const flawOfPage = `document.querySelector(".problem")?.textContent ?? (document.documentElement.scrollWidth > Math.max(390, innerWidth) ? "it is wider than a phone" : document.querySelector("h1") ? "" : "it has no heading")`

// registers gives the visitor of a page an account, and returns the user's id.
func registers(tab context.Context, t *testing.T, in *shop.Instance, phone, password string) int64 {
	t.Helper()
	askCode := `(async () => {
		const ask = (proof) => fetch("/api/v1/auth/sms-codes", { method: "POST", headers: { "Content-Type": "application/json", ...(proof && { "Human-Check": proof }) }, body: JSON.stringify({ phone: "` + phone + `", purpose: "register" }) })
		const { solve } = await import("/static/pow.js")
		return (await ask(await solve((await (await ask()).json()).challenge))).ok
	})()`
	var asked bool
	do(tab, t, "ask for a code", chromedp.Evaluate(askCode, &asked, awaitPromise))
	if !asked {
		t.Fatal("no code was sent")
	}
	doc := in.Do(t, http.MethodPost, "/api/v1/auth/register", "", map[string]string{"phone": phone, "code": shop.SMSCode(t, in, "+86"+phone), "password": password}, http.StatusCreated)
	user, err := strconv.ParseInt(fmt.Sprint(doc["user_id"]), 10, 64)
	require.NoError(t, err)
	return user
}

// becomesAdmin makes a visitor the shop's first admin, with an authenticator app, by the link that the server printed.
func becomesAdmin(tab context.Context, t *testing.T, in *shop.Instance, phone, password string) (link string) {
	t.Helper()
	link = regexp.MustCompile(`http://\S+/admin/first-admin\?link=\S+`).FindString(in.Out.String())
	if link == "" {
		t.Fatalf("the server printed no link for the first admin:\n%s", in.Out)
	}
	var secret string
	do(tab, t, "become the first admin",
		chromedp.Navigate(link), fill(`[name=phone]`, phone), fill(`[name=password]`, password), click(`main button`),
		says("Authenticator app"), chromedp.Navigate(in.URL+"/admin/orders"), says("Authenticator app"), // where one who leaves comes back to
		click(`main button`), until(`document.querySelector("img.qr")?.naturalWidth === 256`),
		text(`main code`, &secret))
	digits, err := totp.GenerateCode(secret, time.Now())
	require.NoError(t, err)
	do(tab, t, "add the authenticator app", fill(`[name=code]`, digits), click(`main button`), says("recovery codes"))
	return link
}

// sharesTheWork has a second person in the office: a viewer who may change nothing, and
// later the operator without whom the first one's refund stays where it is.
func sharesTheWork(admin context.Context, t *testing.T, in *shop.Instance, sale loadgen.Planned) {
	t.Helper()
	const phone, password = "13800138777", "a colleague's long password"
	shopper := shop.NewBuyer(t, in, 78)
	no := shopper.Paid(t, sale.ItemID)
	in.Do(t, http.MethodPost, "/api/v1/orders/"+no+"/disputes", shopper.Token, map[string]string{"reason": "盒子压坏了"}, http.StatusCreated)
	colleague := visitor(admin, t)
	do(colleague, t, "look in Chinese", chromedp.Navigate(in.URL+"/admin/sign-in?language=zh"), says("短信验证码登录"))
	registers(colleague, t, in, phone, password)
	giveRole := func(role string) {
		do(admin, t, "make the colleague "+role, chromedp.Navigate(in.URL+"/admin/users?phone="+phone), click("tbody a"), fill(`form[action$="/role"] [name=role]`, role), click(`form[action$="/role"] button`), says("角色已修改"))
	}
	giveRole("viewer")
	page := in.URL + "/admin/activities/" + sale.ActivityID
	var forged int
	do(colleague, t, "look, as a viewer, and be refused what only operators do",
		fill("#by-password [name=phone]", phone), fill("#by-password [name=password]", password), click("#by-password button"), says("只读"),
		chromedp.Navigate(page), says("抢购次数"), until(`!document.querySelector("main form[method=post]")`),
		chromedp.Evaluate(`fetch(location.pathname + "/pause", { method: "POST", body: new URLSearchParams({ _back: location.pathname }) }).then((answer) => answer.status)`, &forged, awaitPromise),
		chromedp.Navigate(in.URL+"/admin/activities/new"), says("您的角色无权打开此页面"))
	require.Equal(t, "the answer to a viewer's forged form", forged, http.StatusForbidden)
	giveRole("operator")
	do(colleague, t, "send a form from another site, which is refused",
		chromedp.Navigate(`data:text/html,<form method=post action="`+page+`/pause"><button>win a phone</button></form>`), click("button"), says("This request came from another site"),
		chromedp.Navigate(page), says("暂停活动"))

	do(admin, t, "ask for a refund, by the keyboard alone",
		chromedp.Navigate(in.URL+"/admin/orders/"+no), says("退款"), tabTo(t, ".skip"), chromedp.KeyEvent(kb.Enter), until(`document.activeElement.id === "main"`),
		tabTo(t, `summary:has(+ form[action$="/refund"])`), chromedp.KeyEvent(kb.Enter), tabTo(t, `form[action$="/refund"] [name=reason]`), input.InsertText("顾客来电"),
		tabTo(t, `form[action$="/refund"] button`), chromedp.KeyEvent(kb.Enter), says("退款已发起"), says("待审批"),
		chromedp.Navigate(in.URL+"/admin/refunds?status=awaiting_approval"), click(`form[action$="/approve"] button`), says("须由另一位运营人员审批"))
	do(colleague, t, "answer the dispute and approve the refund",
		chromedp.Navigate(in.URL+"/admin/disputes"), click("tbody a"), says("盒子压坏了"), fill(`form[action$="/answer"] [name=text]`, "很抱歉，马上为您退款。"), click(`form[action$="/answer"] button`), says("待顾客回复"), shot("dispute-zh"),
		chromedp.Navigate(in.URL+"/admin/refunds?status=awaiting_approval"), click(`form[action$="/approve"] button`), says("已批准"))
	shopper.AwaitStatus(t, no, "refunded", time.Minute)
}

// menuIsReadable opens every page of the menu, and those that plan a sale.
func menuIsReadable(tab context.Context, t *testing.T, in *shop.Instance) {
	t.Helper()
	var pages []string
	do(tab, t, "list the menu", chromedp.Evaluate(`[...document.querySelectorAll("nav a")].map((a) => a.href)`, &pages))
	if len(pages) < 15 {
		t.Errorf("the menu has only %v", pages)
	}
	for _, page := range append(pages, in.URL+"/admin/activities/new") {
		var flaw string
		do(tab, t, "open "+page, chromedp.Navigate(page), until(`document.querySelector("nav [aria-current]")`), chromedp.Evaluate(flawOfPage, &flaw))
		require.Equal(t, "what is wrong with "+page, flaw, "")
		do(tab, t, "unfold it", chromedp.Evaluate(`for (const fold of document.querySelectorAll("details")) fold.open = true`, nil))
		readable(tab, t, "office-"+page[strings.LastIndex(page, "/")+1:])
	}
}

// plansAhead repeats a session, plans the sale again for later, makes a coupon, and reads
// the settings. It leaves the tab on the page of the settings.
func plansAhead(tab context.Context, t *testing.T, in *shop.Instance) {
	t.Helper()
	var repeated string
	do(tab, t, "repeat the imported session for two more days, and the whole sale in a year",
		chromedp.Evaluate(`[...document.querySelectorAll("time")].map((at) => at.textContent).at(-1).slice(0, 10)`, &repeated),
		fill(`form[action$="/repeat"] [name=last_day]`, "2031-12-14"), chromedp.Evaluate(`document.querySelector('form[action$="/repeat"] [name=extend_activity]').click()`, nil),
		click(`form[action$="/repeat"] button`), says("已按天生成场次"), says("2031-12-14 20:00:00"),
		fill(`form[action$="/clone"] [name=shift_days]`, "366"), click(`form[action$="/clone"] button`), says("已复制为草稿"), says("2032-12-14 20:00:00"))
	require.Equal(t, "the day of the imported session", repeated, "2031-12-12")
	do(tab, t, "unfold every form of a draft", chromedp.Evaluate(`for (const fold of document.querySelectorAll("details")) fold.open = true`, nil))
	readable(tab, t, "office-draft")
	coupon := func(field, value string) chromedp.Action {
		return fill(`form[action$="/add"] [name=`+field+`]`, value)
	}
	do(tab, t, "make a coupon, correct it and issue it",
		chromedp.Navigate(in.URL+"/admin/coupons"), coupon("name", "满百减十"), coupon("threshold", "100"), coupon("total", "500"), coupon("valid_days", "7"), click(`form[action$="/add"] button`), says("减免金额与减免百分比须填写其中一项"),
		coupon("amount_off", "10"), click(`form[action$="/add"] button`), says("草稿已创建"), says("−¥10.00"),
		fill(`form[action$="/edit"] [name=amount_off]`, "12.5"), click(`form[action$="/edit"] button`), says("−¥12.50"),
		click(`form[action$="/activate"] button`), says("已启用，可发放和领取"), fill(`form[action$="/correct"] [name=total]`, "800"), click(`form[action$="/correct"] button`), says("0/800"), says("−¥12.50"))
	do(tab, t, "read the settings, without the secrets", chromedp.Navigate(in.URL+"/admin/settings"), says("--refund-approval-above"), says("启动参数"), until(`!document.body.innerText.includes("`+shop.Key+`")`))
}
