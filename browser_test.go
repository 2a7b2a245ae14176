package main

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser returns a headless Chromium's context. Without Chromium the test is
// skipped on a developer's machine and fails in CI, which installs it: a page
// that nobody ever opened is a page that does not work.
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
		t.Skip("this test drives the live page and needs Chromium: `make test` fetches it, or install the package chromium")
	}
	if name == "" {
		t.Fatal("CI must have Chromium for the test of the live page")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(name), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.WindowSize(1180, 1000), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("lang", "en"))
	alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancel := chromedp.NewContext(alloc)
	ctx, cancelTime := context.WithTimeout(ctx, 4*time.Minute) // longer than the demo's three minutes between openings
	t.Cleanup(func() { cancelTime(); cancel(); cancelAlloc() })
	return ctx
}

// clockTenMinutesAhead is what a visitor's wrong clock does to a page.
const clockTenMinutesAhead = `{ const right = Date.now; Date.now = () => right() + 600_000 }`

// TestTheLivePage plays a visitor whose clock is ten minutes ahead: a crowd, "buy
// as me" up to the sandbox bank, and the proof of the books.
func TestTheLivePage(t *testing.T) {
	t.Parallel()
	p := startRun(t, dataDir(t), "--demo-every=12s")
	p.awaitReady(t)
	ctx := browser(t)

	// The default polls on animation frames, which a tab behind another gets none of.
	polling := chromedp.WithPollingInterval(200 * time.Millisecond)
	awaitPromise := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
	var price, steps, outcomes, proved string
	var ahead float64 // milliseconds
	err := chromedp.Run(ctx,
		chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := page.AddScriptToEvaluateOnNewDocument(clockTenMinutesAhead).Do(ctx)
			return err
		}),
		chromedp.Navigate(p.url+"/"),
		chromedp.WaitVisible(`#buy:not([disabled])`, chromedp.ByQuery),
		chromedp.Evaluate(`import("/static/clock.js").then((m) => m.ready.then(() => Date.now() - m.serverNow()))`, &ahead, awaitPromise),
		chromedp.Text(`#price`, &price, chromedp.ByQuery),
		chromedp.Click(`#buy`, chromedp.ByQuery),
		chromedp.WaitReady(`body[data-order="pending_payment"]`, chromedp.ByQuery),
	)
	if err != nil {
		t.Fatalf("buy as me: %v; price %q", err, price)
	}
	if off := time.Duration((ahead - 600_000) * float64(time.Millisecond)).Abs(); off > 500*time.Millisecond {
		t.Errorf("the page's idea of the server's time is %s off", off)
	}
	// The bank opens in a second tab; here the visitor walks there in a tab of
	// the test's own and comes back.
	var payURL string
	err = chromedp.Run(ctx,
		chromedp.Evaluate(`window.open = (url) => { window.payURL = url }`, nil),
		chromedp.Click(`#buy:not([disabled])`, chromedp.ByQuery),
		chromedp.Poll(`window.payURL`, &payURL, polling),
	)
	if err != nil {
		t.Fatalf("start paying: %v", err)
	}
	bank, cancel := chromedp.NewContext(ctx)
	defer cancel()
	if err := chromedp.Run(bank,
		chromedp.Navigate(payURL),
		chromedp.Click(`button[value="pay"]`, chromedp.ByQuery),
		chromedp.WaitReady(`main[data-state="captured"]`, chromedp.ByQuery),
	); err != nil {
		t.Fatalf("pay at the bank: %v", err)
	}
	err = chromedp.Run(ctx,
		chromedp.WaitReady(`body[data-order="paid"]`, chromedp.ByQuery),
		chromedp.Text(`#steps`, &steps, chromedp.ByQuery),
		chromedp.Click(`#send:not([disabled])`, chromedp.ByQuery),
		chromedp.Poll(`document.querySelector("#run").textContent.includes("answers/s")`, nil, polling, chromedp.WithPollingTimeout(2*time.Minute)),
		chromedp.Click(`#prove`, chromedp.ByQuery),
		chromedp.WaitVisible(`#outcomes table`, chromedp.ByQuery),
		chromedp.Text(`#outcomes`, &outcomes, chromedp.ByQuery),
		chromedp.Evaluate(`document.body.dataset.proved`, &proved),
	)
	if err != nil {
		t.Fatalf("crowd and proof: %v; steps %q", err, steps)
	}
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
