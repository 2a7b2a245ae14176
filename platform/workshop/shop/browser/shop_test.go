package browser

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// hurry makes a page's timers run a hundred times as fast.
const hurry = `{ const later = setTimeout; window.setTimeout = (f, ms, ...rest) => later(f, ms / 100, ...rest) }`

// prices are in minor units, which are not hundredths everywhere; the browser knows.
const prices = `import(document.querySelector("script[src]").src).then(({ money }) => ["CNY", "JPY", "KWD", "RSD"].map((currency) => money({ amount: 9900, currency }).replace(/[^0-9.,]/g, "")).join(" "))`

// listAsked counts the page's requests for the list of sessions.
const listAsked = `performance.getEntriesByType("resource").filter((r) => r.name.includes("/sessions?")).length`

// lookAtAnEmptyShop checks that a shop without sales says only that, on a phone and a
// desktop, and how its page polls for new sessions.
func lookAtAnEmptyShop(tab context.Context, t *testing.T, in *shop.Instance) {
	t.Helper()
	var shown, says string
	var shifted shift
	var seen, later int
	var remove page.ScriptIdentifier
	do(tab, t, "open an empty shop",
		chromedp.ActionFunc(func(ctx context.Context) (err error) {
			remove, err = page.AddScriptToEvaluateOnNewDocument(hurry).Do(ctx)
			return err
		}),
		// The origin's renderer has the phone's size before the page is loaded: on a busy machine a new size can move
		// the page later than the half second in which its shifts do not count.
		emulation.SetDeviceMetricsOverride(320, 640, 1, false), chromedp.Navigate(in.URL+"/api/v1/time"), until(`innerWidth === 320`),
		onEachDocument(shiftsCounted), chromedp.Navigate(in.URL+"/"),
		until(`document.querySelector("#empty")`), moved(&shifted), until(`document.documentElement.scrollWidth <= 320`),
		emulation.ClearDeviceMetricsOverride(), chromedp.Evaluate(`document.body.textContent`, &says))
	if shifted.By > 0 || !strings.Contains(says, "小铺子") {
		t.Errorf("the shop's parts moved while it was loaded: %+v; its page says:\n%s", shifted, says)
	}
	if !strings.Contains(says, "No sales right now") || regexp.MustCompile(`curl|token|API`).MatchString(says) {
		t.Errorf("an empty shop tells the public:\n%s", says)
	}

	do(tab, t, "poll only while visible",
		until(listAsked+` > 2`),
		chromedp.Evaluate(`Object.defineProperty(document, "hidden", { value: true, configurable: true }); `+listAsked, &seen),
		chromedp.Evaluate(`new Promise((done) => setTimeout(done, 30_000))`, nil, awaitPromise))
	do(tab, t, "count", chromedp.Evaluate(listAsked, &later))
	if later > seen+1 { // one may have been in flight
		t.Errorf("a hidden page polled %d times", later-seen)
	}
	do(tab, t, "become visible again",
		chromedp.Evaluate(`delete document.hidden; document.dispatchEvent(new Event("visibilitychange"))`, nil), until(listAsked+` > `+strconv.Itoa(later)),
		chromedp.Evaluate(prices, &shown, awaitPromise))
	require.Equal(t, "9900 minor units of CNY, JPY, KWD and RSD", shown, "99.00 9,900 9.900 99.00")

	do(tab, t, "restore normal timers", chromedp.ActionFunc(func(ctx context.Context) error {
		return page.RemoveScriptToEvaluateOnNewDocument(remove).Do(ctx)
	}))
}

// cold is what a page has loaded: how often and how many bytes with headers, but an item
// that is polled only once.
const cold = `(() => {
	const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
	const once = all.filter((r, i) => !r.name.includes("/items/") || all.findIndex((o) => o.name === r.name) === i)
	const early = all.some((r) => r.name.includes("/items/") && r.initiatorType === "link")
	return { requests: once.length, bytes: once.reduce((sum, r) => sum + r.transferSize, 0), early }
})()`

// lookColdly checks what an item's page costs a visitor who has never been there.
func lookColdly(tab context.Context, t *testing.T, in *shop.Instance, item string) {
	t.Helper()
	var loaded struct {
		Requests, Bytes int
		Early           bool // the item is asked for before the script has come
	}
	do(tab, t, "come for the first time", chromedp.Navigate(in.URL+"/?item="+item), until(`document.querySelector("#buy")?.textContent && document.querySelector(".product").naturalWidth`), chromedp.Evaluate(cold, &loaded))
	if loaded.Requests > 8 || loaded.Bytes > 35_000 || loaded.Bytes < 5_000 {
		t.Errorf("an item's page takes %d requests and %d bytes, want at most 8 and 35000", loaded.Requests, loaded.Bytes)
	}
	if !loaded.Early {
		t.Error("the item is asked for only by the script: a round trip more until the button")
	}
}
