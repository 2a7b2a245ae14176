package browser

import (
	"testing"

	"github.com/chromedp/chromedp"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// TestShopperFollowsAParcel: a shopper pays for a delivery and reads until when it can be
// refunded; an operator prints, and ships it in the list; the shopper finds the parcel, confirms
// that it has arrived, and has points.
func TestShopperFollowsAParcel(t *testing.T) {
	t.Parallel()
	const password = "an office's long password"
	shopper := browser(t)
	in := shop.Serve(t, pgtest.DatabaseURL(t), pgtest.RedisURL(t), "--sandbox-sms", "--units-return-within=0s", "--shop-contact=400-123-4567")
	item := planAsked(t, in, askingSale{
		human: "none", refundHours: 1, points: 2, image: "/static/phone.svg",
		checkout: map[string]any{"ways": []string{"delivery"}, "name": "required", "phone": "required", "address": "required", "note": "optional"},
	})
	do(shopper, t, "come", chromedp.Navigate(in.URL+"/"))
	user := registers(shopper, t, in, "13800138000", password)
	do(shopper, t, "buy in Chinese", chromedp.ActionFunc(inChinese), itemPage(t, in, item, user), until(`document.querySelector("#buy:not([disabled])")`), click("#buy"), ordered("pending_payment"))
	var no string
	do(shopper, t, "say where to, and pay", click("#buy"), enter("name", "王小明"), enter("phone", "13800138000"), enter("address", "上海市黄浦区南京东路 1 号 301 室"), enter("note", "请放门口"),
		chromedp.Evaluate(wholeNumber, &no), click("#pay"), paysAtTheBank(), says("待发货"), says("可自助退款至"), until(`document.querySelector("#order img.thumb")?.naturalWidth > 0 && document.querySelector("#order a[href='tel:4001234567']")`))
	readable(shopper, t, "order-to-ship-zh")

	office := visitor(shopper, t)
	becomesAdmin(office, t, in, "13800138111", password)
	do(office, t, "look at what is to be shipped", chromedp.Navigate(in.URL+"/admin/shipping"), says("南京东路"))
	readable(office, t, "office-shipping")
	var printed string
	do(office, t, "print the picking list of the chosen", click(`[data-all="order_no"]`), until(`document.querySelector("[name=order_no]").checked`), click(`[formaction$="/picking"]`), says("Picking list"), says("王小明"), chromedp.Evaluate(`location.search`, &printed))
	require.Equal(t, "the address of the picking list", printed, "?order_no="+no)
	do(office, t, "print slips", shot("picking"), chromedp.Navigate(in.URL+"/admin/shipping/slips"), says("Packing slip"), shot("slips"), chromedp.Navigate(in.URL+"/admin/shipping/slips?language=zh"), says("发货单"), says("请放门口"), shot("slips-zh"),
		chromedp.Navigate(in.URL+"/admin/shipping/picking"), says("拣货单"), shot("picking-zh"))
	do(office, t, "ship it", chromedp.Navigate(in.URL+"/admin/shipping"), says("待发货"), fill(`[name="number.`+no+`"]`, "sf1234567890"), click(`form.ship p.end button`), says("已发货。"))
	readable(office, t, "office-shipped-zh")

	do(office, t, "see the messages about the order", chromedp.Navigate(in.URL+"/admin/orders/"+no), click(`a[href="/admin/shopper-messages?order_no=`+no+`"]`),
		until(`["抢购成功", "付款成功"].every((kind) => document.querySelector("tbody")?.textContent.includes(kind))`))
	readable(office, t, "office-messages-of-order-zh")

	track := `document.querySelector("#tracking[href='https://www.sf-express.com/chn/sc/waybill/waybill-detail/SF1234567890']")`
	do(shopper, t, "find the parcel", until(track+`?.textContent === "顺丰速运 SF1234567890"`), until(`!document.querySelector("#order").textContent.includes("可自助退款至")`))
	readable(shopper, t, "order-shipped-zh")
	english := visitor(shopper, t)
	do(english, t, "find it in English", itemPage(t, in, item, user), chromedp.Navigate(in.URL+"/?order="+no), until(track+`?.textContent === "SF Express SF1234567890"`))
	readable(english, t, "order-shipped-en")
	do(shopper, t, "confirm the receipt", click("#receipt"), says("请确认已收到商品"), click("dialog form .end button"), until(`document.querySelector("#order").dataset.status === "completed"`))
	do(shopper, t, "have points", chromedp.Navigate(in.URL+"/?account"), until(`document.querySelector("#points")?.textContent === "198"`))
	readable(shopper, t, "account-points-zh")
}
