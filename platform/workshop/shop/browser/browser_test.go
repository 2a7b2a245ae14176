package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
	"stampede/platform/workshop/tooltest"
)

// chromium is the package's only one: every story has a profile of its own in it.
var chromium struct {
	sync.Mutex
	root    context.Context // of the browser itself; nil while no story needs one
	stop    func()
	stories int
}

// root returns the running Chromium, in English, and starts it for the first of the stories that need one at a time.
func root(t *testing.T) context.Context {
	t.Helper()
	chromium.Lock()
	defer chromium.Unlock()
	if chromium.root == nil {
		opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(tooltest.Chromium(t)), chromedp.NoSandbox, chromedp.DisableGPU,
			chromedp.WindowSize(1180, 1000), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
			chromedp.Flag("lang", "en"))
		alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
		// The library logs each unknown kind of event.
		ctx, cancel := chromedp.NewContext(alloc, chromedp.WithErrorf(func(string, ...any) {}))
		if err := chromedp.Run(ctx); err != nil {
			cancelAlloc()
			t.Fatalf("start Chromium: %v", err)
		}
		chromium.root, chromium.stop = ctx, func() { cancel(); cancelAlloc() }
	}
	chromium.stories++
	t.Cleanup(func() {
		chromium.Lock()
		defer chromium.Unlock()
		if chromium.stories--; chromium.stories == 0 {
			chromium.stop()
			chromium.root = nil
		}
	})
	return chromium.root
}

// browser returns a visitor's tab that ends with the test at the latest.
func browser(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(root(t), 8*time.Minute) // each step has a deadline of its own; this one is below the package's
	t.Cleanup(cancel)
	return visitor(ctx, t)
}

// visitor returns a tab of a separate profile: no shared login or storage. A script that fails
// in it fails the test.
func visitor(first context.Context, t *testing.T) context.Context {
	t.Helper()
	// A tab without its own window is refused if no window is open.
	root := cdp.WithExecutor(first, chromedp.FromContext(first).Browser)
	profile, err := target.CreateBrowserContext().WithDisposeOnDetach(true).Do(root)
	require.NoError(t, err)
	id, err := target.CreateTarget("about:blank").WithBrowserContextID(profile).WithNewWindow(true).Do(root)
	require.NoError(t, err)
	ctx, cancel := chromedp.NewContext(first, chromedp.WithTargetID(id))
	chromedp.FromContext(ctx).BrowserContextID = profile // its further tabs share the profile
	t.Cleanup(cancel)
	watchScripts(ctx, t)
	return ctx
}

func watchScripts(tab context.Context, t *testing.T) {
	t.Helper()
	chromedp.ListenTarget(tab, func(event any) {
		if e, ok := event.(*runtime.EventExceptionThrown); ok {
			t.Errorf("a script of the page failed: %v", e.ExceptionDetails)
		}
	})
}

// do runs a visitor's steps; what describes them.
func do(tab context.Context, t *testing.T, what string, steps ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(tab, steps...); err != nil {
		var text string // to show where it got stuck, if the tab still answers
		_ = chromedp.Run(tab, chromedp.Evaluate(`[document.body, ...[...document.querySelectorAll("*")].flatMap((e) => e.shadowRoot ? [...e.shadowRoot.children] : [])].map((e) => e.innerText).join("\n")`, &text))
		t.Fatalf("%s: %v; the page says:\n%s", what, err, text)
	}
}

// until waits for a JavaScript expression to become true. It polls from
// outside: a script that polls inside ends with its document, which a page on a
// busy machine may be about to leave.
func until(expression string) chromedp.Action {
	return chromedp.ActionFunc(func(tab context.Context) error {
		tick, deadline := time.NewTicker(50*time.Millisecond), time.NewTimer(90*time.Second)
		defer tick.Stop()
		defer deadline.Stop()
		for {
			var holds bool
			err := chromedp.Evaluate("Boolean("+expression+")", &holds).Do(tab)
			if err == nil && holds {
				return nil
			}
			select {
			case <-tick.C:
			case <-tab.Done():
				return tab.Err()
			case <-deadline.C:
				return errors.Join(fmt.Errorf("not true within 90 s: %s", expression), err)
			}
		}
	})
}

// click presses a button once it is enabled, by script: a background tab has no
// pointer.
func click(selector string) chromedp.Action {
	quoted := strconv.Quote(selector + ":not([disabled])")
	return chromedp.Tasks{until("document.querySelector(" + quoted + ")"), chromedp.Evaluate("document.querySelector("+quoted+").click()", nil)}
}

// text reads what a part of the page says, once it is there.
func text(selector string, into *string) chromedp.Action {
	part := "document.querySelector(" + strconv.Quote(selector) + ")"
	return chromedp.Tasks{until(part), chromedp.Evaluate(part+".innerText", into)}
}

// upload chooses a file in a form. Like all here it is a script: chromedp's own actions ask for an
// element's number first, which ends with the document that the browser may be about to leave.
func upload(selector, name, content string) chromedp.Action {
	input := "document.querySelector(" + strconv.Quote(selector) + ")"
	return chromedp.Tasks{until(input), chromedp.Evaluate(`{ const chosen = new DataTransfer();
		chosen.items.add(new File([`+strconv.Quote(content)+`], `+strconv.Quote(name)+`)); `+input+`.files = chosen.files }`, nil)}
}

// ordered waits for a status of the visitor's order on the page.
func ordered(status string) chromedp.Action {
	return until("document.querySelector('sale-card')?.dataset.order === " + strconv.Quote(status))
}

// asAPerson lets a script do what browsers allow only after a visitor's own click.
func asAPerson(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithUserGesture(true) }

func awaitPromise(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// clockTenMinutesAhead simulates a visitor's wrong clock.
const clockTenMinutesAhead = `{ const right = Date.now; Date.now = () => right() + 600_000 }`

// crowdOfAThousand makes the crowd that the page sends a tenth: the bench and rush play large ones.
const crowdOfAThousand = `{ const send = fetch; fetch = (url, options) => send(url, String(url).endsWith("/demo/shoppers")
	? { ...options, body: JSON.stringify({ shoppers: 1_000 }) } : options) }`

// timeToBuy is true on a page with that clock if its sale does not close in the
// next 8 s: a visitor who arrives at the last moment sees that it has ended.
const timeToBuy = `Date.parse(document.querySelector("sale-card")?.shown?.closes_at) - (Date.now() - 600_000) > 8_000`

// chart is what the demo's page has drawn of a rush.
const chart = `document.querySelector("#chart").innerHTML`

// inChinese sets a tab's language to Chinese.
func inChinese(tab context.Context) error {
	var agent string
	if err := chromedp.Evaluate(`navigator.userAgent`, &agent).Do(tab); err != nil {
		return err
	}
	return emulation.SetUserAgentOverride(agent).WithAcceptLanguage("zh-CN").Do(tab)
}

// TestBrowserMeasuresWithPinnedFonts: whatever the machine has, pages are measured with
// the browser and the fonts that .ci/setup has fetched.
func TestBrowserMeasuresWithPinnedFonts(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(tooltest.Pinned(t)); err != nil && os.Getenv("CI") != "true" {
		t.Skip("the pinned browser is not here: `make test` fetches it on Linux on x86-64")
	}
	const measure = `navigator.userAgent.match(/Chrome\/\d+/)[0] + ["system-ui", "ui-monospace, monospace"].map((font) => {
		document.body.innerHTML = "<p><span>Paused 已暂停 ¥39.90</span>"
		document.querySelector("p").style.font = "100px " + font
		const { width, height } = document.querySelector("span").getBoundingClientRect()
		return "; " + width + " x " + height
	}).join("")`
	var measured string
	do(browser(t), t, "measure", chromedp.Navigate("about:blank"), chromedp.Evaluate(measure, &measured))
	require.Equal(t, "measured", measured, "Chrome/149; 1005 x 136; 1140 x 117")
}

// TestLivePage plays a visitor whose clock is ten minutes ahead: "buy as me"
// with WeChat's code, then with Alipay's page instead and back, both practised with,
// followed in a second tab in Chinese; then a crowd, Redis killed under it, and the proof
// of the books.
func TestLivePage(t *testing.T) {
	t.Parallel()
	p := shop.StartRun(t, shop.DataDir(t), "--demo-every=12s", "--pay=wechat,alipay")
	p.AwaitReady(t)
	ctx := browser(t)

	var price, number, outcomes, proved, healed, drawn, again string
	var ahead float64 // milliseconds
	do(ctx, t, "buy as me",
		onEachDocument(clockTenMinutesAhead+crowdOfAThousand),
		chromedp.Navigate(p.URL+"/demo"),
		chromedp.Evaluate(`import(document.querySelector("script[src]").src).then(({ ready, serverNow }) => ready.then(() => Date.now() - serverNow()))`, &ahead, awaitPromise),
		until(timeToBuy),
		text(`#price`, &price),
		click("#buy"),
		ordered("pending_payment"),
		until(`document.querySelector("#number code")?.checkVisibility()`), chromedp.Evaluate(wholeNumber, &number),
		emulation.SetFocusEmulationEnabled(true), // browsers copy only for the focused page
		chromedp.Evaluate(`document.querySelector("#number .copy").click()`, nil, asAPerson), until(`document.querySelector("#number .copy").textContent === "Copied"`),
	)
	if price == "" {
		t.Error("the page shows no price")
	}
	if off := time.Duration((ahead - 600_000) * float64(time.Millisecond)).Abs(); off > 5*time.Second { // half of what a busy machine may take to answer
		t.Errorf("the page's estimate of the server's time is %s off", off)
	}
	second, cancel := chromedp.NewContext(ctx)
	defer cancel()
	watchScripts(second, t)
	do(second, t, "find the order in a second tab", chromedp.ActionFunc(inChinese),
		chromedp.Navigate(p.URL+"/?order="+number), ordered("pending_payment"), until(`document.querySelector("#buy").textContent === "去支付"`))
	do(ctx, t, "choose the code and change one's mind",
		click("#buy"), click(`dialog [data-provider="wechat"]`), click("#pay"), until(`document.querySelector("dialog img.code")?.naturalWidth === 256`),
		until(`document.querySelector("#practice").href.startsWith("http")`), click("dialog .row button"))
	do(ctx, t, "pay at the other company in the same tab and return to the order",
		click("#buy"), click(`dialog [data-provider="alipay"]`), click("#pay"), click(`button[value="pay"]`),
		click(`main[data-state="captured"] p a[href$="`+number+`"]`),
		until(`document.querySelector("#order")?.dataset.status === "paid"`))
	do(second, t, "get a push", ordered("paid"), until(`document.querySelector("sale-card").dataset.pushed === "paid"`))
	do(ctx, t, "read what happened, and find the order in the list", until(`document.querySelector("#order")?.dataset.status === "paid" && document.querySelector(".timeline").textContent.includes("Payment confirmed")`),
		chromedp.Navigate(p.URL+"/?orders"), until(`document.querySelector('#orders a[href$="`+number+`"] .go')?.textContent === "Paid"`))
	do(ctx, t, "send a crowd", chromedp.Navigate(p.URL+"/demo"), click("#send"))
	do(second, t, "kill Redis meanwhile", chromedp.Navigate(p.URL+"/demo"), click("#kill"), until(`document.querySelector("#kill").disabled`),
		until(`document.querySelector("#outage").textContent.includes("违反 0 处")`), text(`#outage`, &healed))
	if !regexp.MustCompile(`，(0\.[1-9]|[1-9]\d*\.\d) 秒后全部恢复`).MatchString(healed) || !regexp.MustCompile(`核对 [1-9]\d 项`).MatchString(healed) {
		t.Errorf("after Redis was killed the page says: %s", healed)
	}
	do(ctx, t, "crowd and proof",
		until(`document.querySelector("#run").textContent.includes("responses/s")`),
		click("#prove"),
		until(`document.querySelector("#outcomes table")`),
		text(`#outcomes`, &outcomes),
		chromedp.Evaluate(chart, &drawn),
		chromedp.Evaluate(`document.querySelector("#proof").dataset.proved`, &proved),
	)
	require.Equal(t, "the books are proved:\n"+outcomes, proved, "true")
	do(second, t, "read that in Chinese, with the same chart", chromedp.Reload(),
		until(`document.querySelector("#run").textContent.includes("每秒应答")`), chromedp.Evaluate(chart, &again), click("#prove"), until(`document.querySelector("#outcomes table")`),
		text(`#outcomes`, &outcomes),
		chromedp.Evaluate(`String([...document.querySelectorAll("#outcomes td:nth-child(2)")].every((name) => /\p{Script=Han}/u.test(name.textContent)))`, &proved))
	require.Equal(t, "each check has a Chinese name:\n"+outcomes, proved, "true")
	if drawn == "" || again != drawn {
		t.Errorf("a page that is loaded after the rush has another chart:\n%s\nthan one that saw it:\n%s", again, drawn)
	}
	if name := os.Getenv("STAMPEDE_SCREENSHOT"); name != "" {
		var png []byte
		// A background page draws no transitions.
		require.NoError(t, chromedp.Run(ctx, page.BringToFront(), chromedp.Sleep(time.Second), chromedp.FullScreenshot(&png, 100)))
		require.NoError(t, os.WriteFile(name, png, 0o600))
	}
}
