package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/loadgen"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// fill types a text into a visible field of a form.
func fill(selector, text string) chromedp.Action {
	return chromedp.Tasks{until("document.querySelector(" + strconv.Quote(selector) + ")"), chromedp.Evaluate("document.querySelector("+strconv.Quote(selector)+").value = "+strconv.Quote(text), nil)}
}

// says waits for a text on the page.
func says(text string) chromedp.Action {
	return until("document.body?.innerText.includes(" + strconv.Quote(text) + ")")
}

// fitsPhone is true on a page that a phone shows without scrolling sideways.
const fitsPhone = `document.documentElement.scrollWidth <= 390`

// shot writes a picture of the page to the folder of SCREENSHOTS.
func shot(name string) chromedp.Action {
	return chromedp.ActionFunc(func(tab context.Context) error {
		folder := os.Getenv("SCREENSHOTS")
		if folder == "" {
			return nil
		}
		for _, width := range []int64{390, 1280} {
			for _, scheme := range []string{"light", "dark"} {
				var png []byte
				features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
				steps := chromedp.Tasks{emulation.SetDeviceMetricsOverride(width, 900, 1, false), emulation.SetEmulatedMedia().WithFeatures(features), chromedp.FullScreenshot(&png, 100)}
				if err := steps.Do(tab); err != nil {
					return err
				}
				if err := os.WriteFile(folder+"/"+name+"-"+strconv.FormatInt(width, 10)+"-"+scheme+".png", png, 0o600); err != nil {
					return err
				}
			}
		}
		return emulation.SetDeviceMetricsOverride(390, 800, 1, true).Do(tab)
	})
}

// worksInTheOffice makes the first admin by the link that the server printed, and
// looks at a shopper's order and cancels it, on a desktop and a phone.
func worksInTheOffice(tab context.Context, t *testing.T, in *shop.Instance, sale loadgen.Planned) {
	t.Helper()
	shopper := shop.NewBuyer(t, in, 77)
	no := shopper.Order(t, sale.ItemID)

	const password = "an office's long password"
	link := becomesAdmin(tab, t, in, "13800138111", password)
	do(tab, t, "see the orders", click(`main a`), until(`document.querySelector("table a[href$='`+no+`']")`), says("Admin"), shot("orders"))
	in.Do(t, http.MethodPost, "/api/v1/auth/first-admin", "", map[string]string{"link": link[len(in.URL+"/admin/first-admin?link="):], "phone": "13800138112", "password": password}, http.StatusForbidden)
	do(tab, t, "search by the keyboard",
		input.DispatchKeyEvent(input.KeyDown).WithKey("/").WithText("/"), until(`document.activeElement.name === "q"`), chromedp.KeyEvent(no+"\r"),
		until(`location.search.includes("q=`+no+`")`), until(`document.querySelectorAll("tbody tr").length === 1`), click("tbody a"), says("History"))
	do(tab, t, "cancel it with a reason, on a phone",
		emulation.SetDeviceMetricsOverride(390, 800, 1, true), until(fitsPhone),
		click(`form[action$="/cancel"] button`), until(`!location.search.includes("done")`), // the browser asks for the reason
		fill(`form[action$="/cancel"] [name=reason]`, "The shopper called."), click(`form[action$="/cancel"] button`),
		says("The order is canceled"), says("The shopper called."), until(fitsPhone), shot("order"))
	shopper.AwaitStatus(t, no, "closed", time.Minute)
	operator, of := shop.Mint(t, 1, auth.Operator), "/api/v1/admin/orders/"+no
	in.Do(t, http.MethodPatch, of+"/external", operator, json.RawMessage(`{"external_id":"SO-1","metadata":{"erp":"7"}}`), http.StatusOK)
	do(tab, t, "correct the external id, and find the order by it",
		chromedp.Navigate(in.URL+"/admin/orders/"+no), until(`document.querySelector("[name=external_id]")?.value === "SO-1"`),
		fill(`[name=external_id]`, "SO 2"), click(`form[action$="/external"] button`), until(`document.querySelector("[name=external_id][aria-invalid]")`),
		fill(`[name=external_id]`, "SO-2"), click(`form[action$="/external"] button`), says("External id saved"),
		chromedp.Navigate(in.URL+"/admin/orders?q=SO-2"), until(`document.querySelectorAll("tbody tr").length === 1`), says("SO-2"), until(fitsPhone), shot("orders-external"))
	require.Equal(t, "metadata after the form", fmt.Sprint(in.Do(t, http.MethodGet, of, operator, nil, http.StatusOK)["metadata"]), "map[erp:7]")
	do(tab, t, "read the sale in Chinese",
		chromedp.Navigate(in.URL+"/admin/activities/"+sale.ActivityID+"?language=zh"), says("暂停活动"), until(fitsPhone), shot("sale-zh"),
		click(`form[action$="/activities/`+sale.ActivityID+`/pause"] button`), says("活动已在所有实例上暂停"), says("已暂停"),
		click(`form[action$="/activities/`+sale.ActivityID+`/resume"] button`), says("活动已恢复"),
		chromedp.Navigate(in.URL+"/admin/items/"+sale.ItemID), says("抢到，等待生成订单"), until(fitsPhone))
	watchesTheRoom(tab, t, in, sale)
	in8 := time.FixedZone("the shop's, by default", 8*60*60)
	typed := func(values map[string]string) (steps chromedp.Tasks) {
		for name, value := range values {
			steps = append(steps, fill(`.plan [name="`+name+`"]`, value))
		}
		return steps
	}
	at := func(hours time.Duration) string {
		return time.Now().Add(hours * time.Hour).In(in8).Format("2006-01-02T15:04")
	}
	const session, lamp, desk = "sessions[0].", "sessions[0].items[0].", "sessions[0].items[2]." // the row between is removed
	do(tab, t, "plan a sale of two items, one of them wrong at first",
		chromedp.Navigate(in.URL+"/admin/activities"), click(`main a[href$="/new"]`), until(`document.querySelector(".plan")`),
		click(`[data-add="sessions[0].items"]`), click(`[data-add="sessions[0].items"]`), click(`fieldset fieldset[data-row="1"] [data-remove]`),
		typed(map[string]string{
			"name": "双十一", session + "name": "早场", session + "opens_at": at(1), session + "closes_at": at(2),
			lamp + "sku": "lamp", lamp + "title": "台灯", lamp + "list_price": "199", lamp + "sale_price": "19.90", lamp + "stock": "50",
			desk + "sku": "desk", desk + "title": "书桌", desk + "list_price": "199", desk + "sale_price": "299", desk + "stock": "5",
		}),
		click(".plan .end button"), until(`document.querySelector('[name="sessions[0].items[1].sale_price"][aria-invalid]')?.value === "299"`), shot("plan-zh"),
		typed(map[string]string{"sessions[0].items[1].sale_price": "99"}), click(".plan .end button"), says("草稿已创建"), says("¥19.90"), says("书桌"))
	// The forms of the draft's page are folded; each is sent as it stands with what is typed over.
	form := func(end string) string { return `form[action$="` + end + `"]` }
	do(tab, t, "edit the sale, its rules, its session and its item",
		fill(form("/edit")+` [name=payment_window_seconds]`, "0.5"), fill(form("/edit")+` [name="checkout.freight"]`, "8"), fill(form("/edit")+` [name="checkout.address"]`, "required"), chromedp.Evaluate(`document.querySelector('form[action*="/activities/"][action$="/edit"] [name=delivery]').click()`, nil),
		click(`form[action*="/activities/"][action$="/edit"] button`), says("活动已修改"),
		until(`document.querySelector('form[action*="/activities/"][action$="/edit"] [name=payment_window_seconds]').value === "0.5" && document.querySelector('[name=delivery]').checked && document.querySelector('[name="checkout.freight"]').value === "8.00"`),
		fill(form("/rules")+` [name=rules]`, "每人一件"), click(form("/rules")+` button`), says("活动规则已更新"), until(`document.querySelector("[name=rules]").value === "每人一件"`),
		fill(`form[action*="/sessions/"][action$="/edit"] [name=name]`, "晚场"), click(`form[action*="/sessions/"][action$="/edit"] button`), says("场次已修改"), says("晚场"),
		click(`tbody tr a`), says("台灯"), fill(form("/edit")+` [name=sale_price]`, "18.80"), click(form("/edit")+` button`), says("商品已修改"), until(`document.querySelector("[name=sale_price]").value === "18.80"`),
		fill(form("/detail")+` [name=description]`, "# 暖光"), click(form("/detail")+` button`), says("图文详情已更新"))
	var item, page string
	do(tab, t, "find the item", chromedp.Evaluate(`location.pathname`, &item), chromedp.Evaluate(`document.querySelector('main a[href^="/?preview="]').href`, &page))
	do(tab, t, "preview the draft, which only the staff sees", chromedp.Navigate(page), says("¥18.80"), says("暖光"), says("每人一件"), says("Preview: this is what shoppers"), shot("preview-zh"), chromedp.Navigate(in.URL+item))
	in.Do(t, http.MethodGet, "/api/v1/items/"+strings.Split(page, "=")[1], "", nil, http.StatusNotFound)
	do(tab, t, "publish it",
		click(`main a[href^="/admin/activities/"]`), says("¥18.80"), click(`form[action$="/publish"] button`), says("活动已发布"), until(`document.querySelector("h1").innerText.startsWith("开售检查")`), shot("planned-zh"))
	replacesByDocument(tab, t, in)
	importsASale(tab, t, in)
	plansAhead(tab, t, in)
	tellsSystems(tab, t, in)
	sharesTheWork(tab, t, in, sale)
	menuIsReadable(tab, t, in)
	seesAsAViewer(tab, t, in, sale)
	do(tab, t, "sign out", click(`form[action="/admin/sign-out"] button`), says("登录"), chromedp.Navigate(in.URL+"/admin/orders"),
		until(`location.pathname === "/admin/sign-in"`), shot("sign-in-zh"))
}

// tellsSystems makes an API key and a webhook, whose secrets are shown once, and tests where alarms go.
func tellsSystems(tab context.Context, t *testing.T, in *shop.Instance) {
	t.Helper()
	do(tab, t, "make an API key, and revoke it, on a phone",
		emulation.SetDeviceMetricsOverride(390, 800, 1, true), chromedp.Navigate(in.URL+"/admin/api-keys"), says("还没有密钥"), fill(`form[action$="/make"] [name=name]`, "ERP"), fill(`form[action$="/make"] [name=scopes]`, "orders:all"), click(`form[action$="/make"] button`),
		until(`document.querySelector("[name=scopes][aria-invalid]")`), fill(`form[action$="/make"] [name=scopes]`, "orders:read\nevents:read"), click(`form[action$="/make"] button`),
		until(`document.querySelector("main code").innerText.startsWith("stpk_")`), shot("key-zh"), click(`main .end a`), says("密钥已生效"), says("events:read"), until(fitsPhone), shot("keys-zh"),
		click(`form[action$="/revoke"] button`), says("密钥已在所有实例失效"), says("已撤销"))
	do(tab, t, "add a webhook, test it and remove it",
		chromedp.Navigate(in.URL+"/admin/webhooks"), says("还没有接收事件的系统"), fill(`form[action$="/add"] [name=url]`, "https://shop.invalid/events"), click(`form[action$="/add"] button`),
		until(`document.querySelector("main code").innerText.startsWith("whsec_")`), click(`main .end a`), says("shop.invalid"), until(fitsPhone), shot("webhooks-zh"),
		click(`tbody a`), click(`form[action$="/test"] button`), says("测试已发送"), says("webhook.test"), until(fitsPhone), shot("webhook-zh"),
		fill(`form[action$="/change"] [name=types]`, "order.paid"), click(`form[action$="/change"] button`), says("已修改"), until(`document.querySelector("[name=types]").value === "order.paid"`),
		click(`form[action$="/remove"] button`), says("已移除"), says("还没有接收事件的系统"), emulation.SetDeviceMetricsOverride(1280, 800, 1, false))
	do(tab, t, "test where alarms go", chromedp.Navigate(in.URL+"/admin/alarms"), click(`form[action$="/alarms/test"] button`), says("尚未设置告警渠道"), shot("alarm-test-zh"))
}

// importsASale sends a sheet with a line that the API refuses, and the corrected one.
func importsASale(tab context.Context, t *testing.T, in *shop.Instance) {
	t.Helper()
	const sheet = "\ufeff场次,开抢时间,结束时间,商品编码,商品名称,原价,秒杀价,库存\n双十二,2031-12-12 20:00,2031-12-12 22:00,lamp,台灯,199,19.90,50\n,,,desk,书桌,199,299,5\n"
	file := func(name, content string) chromedp.Action {
		return chromedp.Tasks{fill(`form[action$="/import"] [name=name]`, "双十二"), upload(`form[action$="/import"] [name=file]`, name, content)}
	}
	do(tab, t, "import a sale",
		chromedp.Navigate(in.URL+"/admin/activities"), file("wrong.csv", sheet), click(`form[action$="/import"] button`),
		says("第 3 行，秒杀价：秒杀价不能高于原价。"), shot("import-zh"), chromedp.Navigate(in.URL+"/admin/activities"), until(`document.querySelector("tbody") && !document.querySelector("tbody").innerText.includes("双十二")`),
		file("right.csv", strings.Replace(sheet, "299", "99", 1)), click(`form[action$="/import"] button`), says("已按文件创建草稿"), says("书桌"), says("2031-12-12 20:00:00"))
}

// replacesByDocument downloads the document of a sale that another system plans, and sends it
// back changed, at first with a session that has no external id.
func replacesByDocument(tab context.Context, t *testing.T, in *shop.Instance) {
	t.Helper()
	const id, price = "erp/7", `{"amount":100,"currency":"CNY"}`
	made := in.Do(t, http.MethodPut, "/api/v1/admin/activities/by-external-id/"+url.PathEscape(id), shop.Mint(t, 1, auth.Operator), json.RawMessage(`{"name":"Planned elsewhere",
		"starts_at":"2031-01-01T00:00:00Z","ends_at":"2031-01-02T00:00:00Z","sessions":[{"external_id":"s","name":"Morning","opens_at":"2031-01-01T01:00:00Z","closes_at":"2031-01-01T02:00:00Z",
		"items":[{"external_id":"i","sku":"lamp","title":"Lamp","list_price":`+price+`,"sale_price":`+price+`,"stock":5}]}]}`), http.StatusOK)
	activity := made["activity"].(map[string]any)["id"].(string) //nolint:errcheck // a string, or the contract is broken
	const form = `form[action="/admin/documents/erp%2F7"]`
	var document string
	do(tab, t, "download the document", chromedp.Navigate(in.URL+"/admin/activities/"+activity), until(`document.querySelector('`+form+` a[href="/admin/documents/erp%2F7"]')`),
		chromedp.Evaluate(`fetch("/admin/documents/erp%2F7").then(answer => answer.text())`, &document, awaitPromise))
	send := func(content string) chromedp.Action {
		return chromedp.Tasks{upload(form+` [name=file]`, "sale.json", content), click(form + ` button`)}
	}
	do(tab, t, "send it back changed",
		send(strings.Replace(document, `"external_id":"s",`, "", 1)), says("sessions[0].external_id: "), until(`document.querySelector("h1").innerText.includes("Planned elsewhere")`),
		send(strings.Replace(document, `"Planned elsewhere"`, `"Changed elsewhere"`, 1)), says("活动已与文档一致"), until(`document.querySelector("h1").innerText.includes("Changed elsewhere")`), shot("document-zh"))
}
