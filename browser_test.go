package main

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// browser returns a headless Chromium's first tab, in English. Without Chromium the
// test is skipped on a developer's machine and fails in CI, which installs it: a page
// that nobody ever opened is a page that does not work. A script that fails in any of
// the tabs fails the test.
func browser(t *testing.T) context.Context {
	t.Helper()
	name := ""
	for _, candidate := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(candidate); err == nil {
			name = found
			break
		}
	}
	if name == "" && os.Getenv("CI") != "true" {
		t.Skip("this test drives the pages and needs Chromium: `make test` fetches it, or install the package chromium")
	}
	if name == "" {
		t.Fatal("CI must have Chromium for the tests of the pages")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(name), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.WindowSize(1180, 1000), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("lang", "en"))
	alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
	// The library logs each kind of event that it does not know.
	ctx, cancel := chromedp.NewContext(alloc, chromedp.WithErrorf(func(string, ...any) {}))
	ctx, cancelTime := context.WithTimeout(ctx, 3*time.Minute)
	t.Cleanup(func() { cancelTime(); cancel(); cancelAlloc() })
	watchScripts(ctx, t)
	return ctx
}

// visitor is a tab of a browser of its own: no login, no storage of the first one's.
func visitor(first context.Context, t *testing.T) context.Context {
	t.Helper()
	// A tab without a window of its own is refused where no window is open.
	root := cdp.WithExecutor(first, chromedp.FromContext(first).Browser)
	profile, err := target.CreateBrowserContext().Do(root)
	if err != nil {
		t.Fatal(err)
	}
	id, err := target.CreateTarget("about:blank").WithBrowserContextID(profile).WithNewWindow(true).Do(root)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(first, chromedp.WithTargetID(id))
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

// do runs a visitor's steps; what says what they are about.
func do(tab context.Context, t *testing.T, what string, steps ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(tab, steps...); err != nil {
		var text string // to tell where it got stuck, if the tab still answers
		_ = chromedp.Run(tab, chromedp.Evaluate("document.body.innerText", &text))
		t.Fatalf("%s: %v; the page says:\n%s", what, err, text)
	}
}

// until waits for an expression of the page to be true. The default polls on
// animation frames, which a tab behind another gets none of.
func until(expression string) chromedp.Action {
	return chromedp.Poll(expression, nil, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(90*time.Second))
}

// click presses a button once it may be pressed, by script: a tab behind another has
// no pointer.
func click(selector string) chromedp.Action {
	quoted := strconv.Quote(selector + ":not([disabled])")
	return chromedp.Tasks{until("document.querySelector(" + quoted + ")"), chromedp.Evaluate("document.querySelector("+quoted+").click()", nil)}
}

// ordered waits for a status of the visitor's order on the page.
func ordered(status string) chromedp.Action {
	return until("document.querySelector('sale-card')?.dataset.order === " + strconv.Quote(status))
}

func awaitPromise(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// clockTenMinutesAhead is what a visitor's wrong clock does to a page.
const clockTenMinutesAhead = `{ const right = Date.now; Date.now = () => right() + 600_000 }`

// TestTheLivePage plays a visitor whose clock is ten minutes ahead: a crowd, "buy
// as me" up to the sandbox bank, and the proof of the books.
func TestTheLivePage(t *testing.T) {
	t.Parallel()
	p := startRun(t, dataDir(t), "--demo-every=12s")
	p.awaitReady(t)
	ctx := browser(t)

	var price, outcomes, payURL, proved string
	var ahead float64 // milliseconds
	do(ctx, t, "buy as me",
		chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := page.AddScriptToEvaluateOnNewDocument(clockTenMinutesAhead).Do(ctx)
			return err
		}),
		chromedp.Navigate(p.url+"/"),
		until(`document.querySelector("#buy:not([disabled])")`),
		chromedp.Evaluate(`import("/static/clock.js").then((m) => m.ready.then(() => Date.now() - m.serverNow()))`, &ahead, awaitPromise),
		chromedp.Text(`#price`, &price, chromedp.ByQuery),
		click("#buy"),
		ordered("pending_payment"),
	)
	if price == "" {
		t.Error("the page shows no price")
	}
	if off := time.Duration((ahead - 600_000) * float64(time.Millisecond)).Abs(); off > 500*time.Millisecond {
		t.Errorf("the page's idea of the server's time is %s off", off)
	}
	// The bank opens in a second tab; here the visitor walks there in a tab of
	// the test's own and comes back.
	do(ctx, t, "start paying",
		chromedp.Evaluate(`window.open = (url) => { window.payURL = url }`, nil),
		click("#buy"), until(`window.payURL`), chromedp.Evaluate(`window.payURL`, &payURL),
	)
	bank, cancel := chromedp.NewContext(ctx)
	defer cancel()
	do(bank, t, "pay at the bank", chromedp.Navigate(payURL), click(`button[value="pay"]`), chromedp.WaitReady(`main[data-state="captured"]`, chromedp.ByQuery))
	do(ctx, t, "crowd and proof",
		ordered("paid"), until(`document.querySelector("sale-card").dataset.pushed === "paid"`), // a push told it as well
		click("#send"),
		until(`document.querySelector("#run").textContent.includes("answers/s")`),
		click("#prove"),
		until(`document.querySelector("#outcomes table")`),
		chromedp.Text(`#outcomes`, &outcomes, chromedp.ByQuery),
		chromedp.Evaluate(`document.querySelector("#proof").dataset.proved`, &proved),
	)
	if proved != "true" {
		t.Errorf("the books were not proved:\n%s", outcomes)
	}
	if name := os.Getenv("STAMPEDE_SCREENSHOT"); name != "" {
		var png []byte
		// A page behind another draws no transitions.
		if err := chromedp.Run(ctx, page.BringToFront(), chromedp.Sleep(time.Second), chromedp.FullScreenshot(&png, 100)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, png, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
