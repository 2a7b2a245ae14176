package browser

import (
	"context"
	"net/http"
	"strconv"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/loadgen"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

const (
	// curveTable opens the table beside the curve.
	curveTable = `document.querySelector(".numbers").open = true`
	// curveRows is the table as text, "" before it is filled.
	curveRows = `[...document.querySelectorAll(".numbers tbody tr")].map((row) => row.innerText).join("\n")`
)

// watchesTheRoom follows a sale on its war room, on a phone and on a wall: the curve is
// there, as a table too, and again after a reload; what changes elsewhere shows and moves
// nothing; and a viewer sees no control.
func watchesTheRoom(tab context.Context, t *testing.T, in *shop.Instance, sale loadgen.Planned) {
	t.Helper()
	const room = "/admin/activities/"
	var flaw, before, after, label string
	var shifted shift
	do(tab, t, "watch the sale on a phone",
		chromedp.Navigate(in.URL+room+sale.ActivityID+"/live?language=zh"), until(`document.querySelector(".chart path.granted")`), says("距结束"),
		until(`/^\d\d:\d\d:\d\d$/.test(document.querySelector("[data-is=clock]").textContent)`), chromedp.Evaluate(flawOfPage, &flaw), shot("war-room-zh"))
	require.Equal(t, "what is wrong with the war room", flaw, "")
	do(tab, t, "read the curve as a table and reload",
		chromedp.Navigate(in.URL+room+sale.ActivityID+"/live?language=en"), until(`document.querySelector(".chart path.granted")`),
		chromedp.Evaluate(curveTable, nil), until(curveRows), chromedp.Evaluate(curveRows, &before), chromedp.Evaluate(`document.querySelector(".chart svg").getAttribute("aria-label")`, &label),
		chromedp.Reload(), until(`document.querySelector(".chart path.granted")`), chromedp.Evaluate(curveTable, nil), until(curveRows), chromedp.Evaluate(curveRows, &after))
	if before != after || label == "" {
		t.Errorf("the curve was %q and is %q after a reload; it is described as %q", before, after, label)
	}
	do(tab, t, "take over a changed plan", chromedp.Evaluate(`document.querySelector("tr[data-item]").remove()`, nil), until(`document.querySelector("tr[data-item]")`))
	operator := shop.Mint(t, 1, auth.Operator)
	do(tab, t, "see a pause of another operator, and what an item's form does",
		page.BringToFront(), // a tab behind another one draws no frame
		emulation.SetDeviceMetricsOverride(1280, 800, 1, false), chromedp.Reload(), // the resize would hide what moves in the half second after it
		until(`document.querySelector(".whole form[action$='/pause']").checkVisibility() && document.querySelector("[data-is=clock]").textContent`),
		chromedp.Evaluate(shiftsCounted, nil), moved(&shifted), chromedp.Evaluate(`window.shifted = { By: 0, Moves: [] }`, nil), // the first figures, which replace the plan's, may move the page
		chromedp.ActionFunc(func(context.Context) error {
			in.Do(t, http.MethodPost, "/api/v1/admin/activities/"+sale.ActivityID+"/pause", operator, nil, http.StatusOK)
			return nil
		}),
		until(`document.querySelector(".whole form[action$='/resume']").checkVisibility() && !document.querySelector("h1 [data-if=paused]").hidden`),
		moved(&shifted),
		click(`.whole form[action$="/resume"] button`), says("The sale is live again"),
		fill(`tr[data-item] form[action$="/stock"] [name=add]`, "7"), click(`tr[data-item] form[action$="/stock"] button`), says("The stock is adjusted"),
		until(`location.pathname.endsWith("/live")`), until(`document.querySelector("tr[data-item] [data-is=remaining]").textContent === "12"`), shot("war-room"))
	if shifted.By > 0.001 {
		t.Errorf("the pause moved the page: %+v", shifted)
	}
	do(tab, t, "put it on a wall",
		page.BringToFront(), chromedp.Evaluate(`document.querySelector("#wall").click()`, nil, asAPerson), until(`document.fullscreenElement?.id === "room" && !document.querySelector(".room form").checkVisibility()`),
		chromedp.Evaluate(`document.exitFullscreen()`, nil, awaitPromise), emulation.SetDeviceMetricsOverride(390, 800, 1, true),
		chromedp.Navigate(in.URL+"/admin/activities?language=zh"), says("活动"))
}

// seesAsAViewer looks at a war room after another admin has made the operator a viewer.
func seesAsAViewer(tab context.Context, t *testing.T, in *shop.Instance, sale loadgen.Planned) {
	t.Helper()
	admin := shop.Mint(t, 2, auth.Admin)
	ids := map[string]string{}
	_, users := in.Call(t, http.MethodGet, "/api/v1/admin/users", admin, nil)
	for _, u := range users["data"].([]any) {
		u := u.(map[string]any)
		ids[u["role"].(string)] = u["id"].(string)
	}
	for _, change := range [][2]string{{ids["shopper"], "admin"}, {ids["admin"], "viewer"}} {
		in.Do(t, http.MethodPost, "/api/v1/admin/users/"+change[0]+"/role", admin, map[string]string{"role": change[1]}, http.StatusNoContent)
	}
	var controls int
	do(tab, t, "watch it as a viewer",
		chromedp.Navigate(in.URL+"/admin/activities/"+sale.ActivityID+"/live"), says("只读"), until(`document.querySelector(".chart path.granted")`),
		chromedp.Evaluate(`document.querySelectorAll("main form").length`, &controls))
	require.Equal(t, "forms in a viewer's war room", controls, 0)
	self, err := strconv.ParseInt(ids["admin"], 10, 64)
	require.NoError(t, err)
	for range 8 { // as many as one user may have open
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, in.URL+"/api/v1/admin/activities/"+sale.ActivityID+"/war-room/live", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+shop.Mint(t, self, auth.Viewer))
		resp, err := http.DefaultClient.Do(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("open a stream: %v %v", resp, err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
	}
	const news = `document.querySelector("[data-is=news]").textContent`
	do(tab, t, "be displaced by newer streams, and follow again when looked at",
		until(news+`.includes("已停止更新")`), chromedp.Evaluate(`dispatchEvent(new Event("focus"))`, nil), until(news+` === ""`))
}
