package browser

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

const (
	// wholeNumber is the number that the page shows, of which the shopper sees the ends.
	wholeNumber = `document.querySelector("#number code").dataset.whole`
	// keptNumber is the number that the browser keeps of an attempt; undefined without one.
	keptNumber = `Object.entries(localStorage).filter(([key]) => key.startsWith("stampede-attempt-")).map(([, kept]) => JSON.parse(kept).no)[0]`
	// answerLost lets the page's first rush reach the server and loses the answer.
	answerLost = `{ const real = fetch; let lost = false; window.fetch = async (...request) => {
		const answer = await real(...request);
		if (lost || !String(request[0]).includes("/rush/")) return answer;
		lost = true;
		throw new TypeError("the answer was lost");
	} }`
	// clockFiveMinutesBehind simulates a visitor's wrong clock.
	clockFiveMinutesBehind = `{ const right = Date.now; Date.now = () => right() - 300_000 }`
	// timeComesLate has each round about the server's time come a second after the last, and all answers after the first
	// round's three take two seconds for the way back.
	timeComesLate = `{ const every = setInterval, real = fetch; let asked = 0; window.late = 0
		window.setInterval = (f, ms) => every(f, ms === 60_000 ? 1_000 : ms)
		window.fetch = async (...request) => {
			const answer = await real(...request);
			if (String(request[0]).includes("/api/v1/time") && ++asked > 3) {
				await new Promise((done) => setTimeout(done, 2_000))
				window.late++
			}
			return answer
		} }`
	// shiftsCounted adds up by how much the page's parts move from then on, as the web does: what moves within half
	// a second of input, or of a new size of the window, does not count.
	shiftsCounted = `window.shifted = { By: 0, Moves: [] }; { const from = performance.now(); new PerformanceObserver((list) => {
		for (const e of list.getEntries()) if (e.startTime >= from && (window.afterInput || !e.hadRecentInput)) {
			window.shifted.By += e.value
			const box = (r) => [r.x, r.y, r.width, r.height].map(Math.round).join(" ")
			for (const { node, previousRect, currentRect } of e.sources)
				window.shifted.Moves.push((node?.outerHTML?.slice(0, 60) ?? node?.textContent) + " from " + box(previousRect) + " to " + box(currentRect))
		}
	}).observe({ type: "layout-shift" }) }`
	// everyShiftCounted adds up also what input moves, for a page whose window keeps its size.
	everyShiftCounted = `window.afterInput = true; ` + shiftsCounted
	// socketsFull is a server that opens each socket and closes it at once, and notes when.
	socketsFull = `{ const began = window.sockets = []
		WebSocket = class { constructor() { began.push(Date.now()); queueMicrotask(() => { this.onopen(); this.onclose(); }); } close() {} } }`
	// unitsComeAndGo reads the tab's title before, when units come back to a shopper who asked to be told, when they are
	// gone, and when others come back.
	unitsComeAndGo = `(() => {
		const card = document.querySelector("sale-card"), item = card.shown, titles = [document.title]
		const see = (status) => { card.show({ ...item, status }); titles.push(document.title) }
		see("all_held")
		document.querySelector("#tell").checked = true
		for (const status of ["on_sale", "all_held", "on_sale"]) see(status)
		return titles
	})()`
	sends = `document.querySelector("#buy").textContent === "Sending …"`
)

// requests counts the page's requests whose address contains a text.
func requests(text string) string {
	return `performance.getEntriesByType("resource").filter((r) => r.name.includes(` + strconv.Quote(text) + `)).length`
}

// onEachDocument runs a script before those of every page of the tab.
func onEachDocument(script string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(script).Do(ctx)
		return err
	})
}

// shift is by how much a page's parts have moved, and which.
type shift struct {
	By    float64
	Moves []string
}

// unmoved is the shift of a page whose parts stay where they are.
var unmoved = shift{Moves: []string{}}

// moved reads what shiftsCounted has added up, a frame later: the last change is known only then.
func moved(by *shift) chromedp.Action {
	return chromedp.Evaluate(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(window.shifted)))))`, by, awaitPromise)
}

// offline cuts the tab's network, or gives it back.
func offline(cut bool) chromedp.Action {
	return chromedp.Tasks{network.Enable(), network.EmulateNetworkConditions(cut, 0, -1, -1), until(`navigator.onLine === ` + strconv.FormatBool(!cut))}
}

// blocks keeps the tab from the addresses that match a pattern, and lets it reach all others.
func blocks(patterns ...string) chromedp.Action {
	return chromedp.Tasks{network.Enable(), network.SetBlockedURLs(append([]string{}, patterns...))}
}

// missesScript presses a button while a module cannot be loaded, and has the next press ask for it by another address.
func missesScript(name, button, offline string) chromedp.Action {
	return chromedp.Tasks{blocks("*" + name + "*"), click(button), says(offline), blocks(), click(button), until(requests(name+"?1") + ` > 0`)}
}

// loser is a shopper who arms an item's attempt and whose page then comes to grief
// until the item has opened.
type loser struct {
	what          string
	before, after chromedp.Action
	tab           context.Context
	number        string
}

// loseNothing lets shoppers who have armed an item reload, leave, freeze, and lose the
// network or an answer over the opening. What it returns checks after the opening that
// each got the answer of the one number that was issued; and that a shopper with a wrong
// clock, who waits for the button and presses it twice, makes one attempt; and what losers
// see: no number, a grey button, and a lit one when a unit returns.
func loseNothing(t *testing.T, in *shop.Instance, visitor func() context.Context) (check func()) {
	t.Helper()
	const opensIn = 25 * time.Second // all are armed by then, also on a busy machine
	item := planAsked(t, in, askingSale{human: "none", opensIn: opensIn})
	losers := []*loser{
		{what: "reload, and the rush's answer is lost", before: chromedp.Tasks{onEachDocument(answerLost), chromedp.Reload()}, after: until(requests("/rush/") + ` === 2`)},
		{what: "offline over the opening", before: offline(true), after: chromedp.Tasks{until(sends), until(`document.querySelector("#said").textContent.includes("unstable")`), offline(false)}},
		{what: "frozen over the opening", before: page.SetWebLifecycleState(page.SetWebLifecycleStateStateFrozen), after: page.SetWebLifecycleState(page.SetWebLifecycleStateStateActive)},
		{
			what: "no socket is left", before: chromedp.Tasks{onEachDocument(socketsFull), chromedp.Reload()},
			after: until(`window.sockets[2] - window.sockets[1] >= 2000`),
		}, // twice the first pause
		{what: "closed, and opened again", before: chromedp.Navigate("about:blank"), after: chromedp.Navigate(in.URL + "/?item=" + item)},
	}
	wrong := visitor()
	do(wrong, t, "come with a wrong clock", onEachDocument(clockFiveMinutesBehind), onEachDocument(shiftsCounted), itemPage(t, in, item, 31))
	for i, l := range losers {
		l.tab = visitor()
		do(l.tab, t, "arm: "+l.what, itemPage(t, in, item, int64(32+i)), click("#arm"), until(keptNumber), chromedp.Evaluate(keptNumber, &l.number), l.before)
	}
	return func() {
		var paths, rushes int
		var shifted shift
		do(wrong, t, "be told of the opening, and press twice", until(`document.querySelector("#said").textContent.includes("First come") && !document.querySelector("#buy").disabled`),
			chromedp.Evaluate(`document.querySelector("#buy").click(); document.querySelector("#buy").click()`, nil), ordered("pending_payment"),
			chromedp.Evaluate(requests("/rush-path"), &paths), chromedp.Evaluate(requests("/rush/"), &rushes))
		if paths != 1 || rushes != 1 {
			t.Errorf("two presses made %d requests for a path and sent it %d times, want once each", paths, rushes)
		}
		for _, l := range losers {
			var shown string
			do(l.tab, t, l.what, l.after, ordered("pending_payment"), chromedp.Evaluate(wholeNumber, &shown))
			if shown != l.number || shown == "" {
				t.Errorf("%s: the order has the number %q, want the one of the path, %q", l.what, shown, l.number)
			}
		}
		do(wrong, t, "cancel after a question", click("#cancel"), click("#cancelYes"), ordered("closed"), moved(&shifted),
			until(`getComputedStyle(document.querySelector("#number")).visibility === "hidden"`))
		require.Equal(t, "shift between the first picture and the closed order", shifted, unmoved)

		scarce := planAsked(t, in, askingSale{human: "none", stock: 1, limit: 2})
		var titles []string
		do(losers[1].tab, t, "be told in the tab's title while there is something to be had", itemPage(t, in, scarce, 33),
			until(`document.querySelector("#buy:not([disabled])")`), chromedp.Evaluate(unitsComeAndGo, &titles))
		require.Equal(t, "titles while units come and go", titles, []string{titles[0], titles[0], "Back in stock. Be quick!", titles[0], titles[0]})
		do(losers[1].tab, t, "choose fewer after asking for too many", click(".quantity button:last-child"), click("#buy"), until(`document.title === `+strconv.Quote(titles[0])),
			until(`document.querySelector("#said").textContent.includes("smaller quantity")`), click(".quantity button"), until(`document.querySelector(".quantity output").textContent === "1"`))
		rate := func(perSecond any) {
			in.Do(t, http.MethodPut, "/api/v1/admin/items/"+scarce+"/admission", shop.Mint(t, 1, auth.Operator), map[string]any{"per_second": perSecond}, http.StatusOK)
		}
		rate(0)
		do(wrong, t, "wait in line while no one is let in", itemPage(t, in, scarce, 31), until(`document.querySelector(".quantity").style.visibility === ""`),
			click("#buy"), until(`document.querySelector("#said").textContent.includes("You are number 1 in line. The shop is letting no one in")`))
		readable(wrong, t, "in-line")
		rate(nil)
		do(wrong, t, "take the only unit, whose quantity is settled then", ordered("pending_payment"), until(`document.querySelector(".quantity").style.visibility === "hidden"`))
		late := losers[0].tab
		do(late, t, "come too late", itemPage(t, in, scarce, 32), until(`document.querySelector("#buy").textContent === "All claimed" && document.querySelector("#buy").disabled`),
			until(`getComputedStyle(document.querySelector("#number")).visibility === "hidden"`), click("#tell"))
		readable(late, t, "all-held")
		do(wrong, t, "give it back", click("#cancel"), click("#cancelYes"), ordered("closed"))
		do(late, t, "be told, get what returned, and pay for it",
			until(`document.querySelector("#said").textContent.includes("Be quick") && document.title.includes("Be quick") && !document.querySelector("#tell").checked`),
			click("#buy"), until(`document.title.startsWith("Phone")`), ordered("pending_payment"), click("#buy"), click("#pay"), paysAtTheBank())
		do(wrong, t, "see that all are paid for", until(`document.querySelector("#buy").textContent === "Sold out"`))
		readable(wrong, t, "sold-out")
		_, sold := in.Call(t, http.MethodGet, "/api/v1/items/"+scarce, "", nil)
		activity, _ := sold["activity_id"].(string)
		in.Do(t, http.MethodPost, "/api/v1/admin/activities/"+activity+"/terminate", shop.Mint(t, 1, auth.Operator), nil, http.StatusOK)
		do(wrong, t, "see that it is over, with a way on", until(`document.querySelector("#buy:not([disabled])")?.textContent === "Back to sales"`))
		readable(wrong, t, "ended")
		do(wrong, t, "find the closed order, with a way on", chromedp.Navigate(in.URL+"/?orders"), click("#orders a"), until(`document.querySelector("#order")?.dataset.status === "closed" && document.querySelector("#again")`))
		readable(wrong, t, "order-closed")
		do(wrong, t, "hear that the opening was missed",
			chromedp.Evaluate(`localStorage.setItem("stampede-attempt-31-`+scarce+`", '{"opens":1,"quantity":1,"no":"0","path":"0","from":1,"until":2}')`, nil),
			chromedp.Navigate(in.URL+"/?item="+scarce), until(`document.querySelector("#said")?.textContent.includes("was not open")`))
		do(wrong, t, "not be said to be in line while the server does not say so", blocks("*/orders/*"),
			chromedp.Evaluate(`localStorage.setItem("stampede-attempt-31-`+scarce+`",
				'{"opens":1,"quantity":1,"no":"0198f2c8b5d07c3e9a4f1b2c3d4e5f60","path":"0","from":1,"until":2,"sent":true}')`, nil), chromedp.Reload(),
			until(`document.querySelector("#said")?.textContent.startsWith("No answer came in time") && document.querySelector("#buy").textContent === "Checking …"`))
		readable(wrong, t, "asking")
		do(wrong, t, "hear that the attempt is not in line", blocks(), until(`document.querySelector("#said").textContent.startsWith("You did not get in line")`))
		var off float64 // milliseconds
		do(wrong, t, "keep the server's time when later answers are worse", onEachDocument(timeComesLate), chromedp.Reload(), until(`window.late > 1`),
			chromedp.Evaluate(`import(document.querySelector("script[src]").src)
				.then(({ serverNow }) => Math.abs(serverNow() - Date.now() - 300_000))`, &off, awaitPromise))
		if off > 500 { // half of a second's round trip; an answer that is two seconds late is a second off
			t.Errorf("the page's estimate of the server's time is %.0f ms off", off)
		}
	}
}
