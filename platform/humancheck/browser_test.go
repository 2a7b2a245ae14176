package humancheck

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/auth"
	"stampede/platform/httpx"
	"stampede/platform/web"
)

// chromium starts one without a window. CI has it; a developer's machine may not.
func chromium(t *testing.T) context.Context {
	t.Helper()
	for _, candidate := range []string{"chromium", "chromium-browser", "google-chrome"} {
		name, err := exec.LookPath(candidate)
		if err != nil {
			continue
		}
		opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(name), chromedp.NoSandbox, chromedp.DisableGPU,
			chromedp.Flag("disable-component-update", true))
		alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
		ctx, closeTab := chromedp.NewContext(alloc)
		ctx, late := context.WithTimeout(ctx, time.Minute)
		t.Cleanup(func() { late(); closeTab(); stop(); chromedp.FromContext(alloc).Allocator.Wait() })
		return ctx
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("CI must have Chromium for the test of the page's proof of work")
	}
	t.Skip("this test needs Chromium: install the package chromium")
	return nil
}

// TestABrowserSolvesTheWork runs the page's own module, in its worker and under the
// headers that pages are served with.
func TestABrowserSolvesTheWork(t *testing.T) {
	t.Parallel()
	ctx := chromium(t)
	b := setup(t, func(c *Config, _ *Deps) { c.Difficulty = DefaultConfig().Difficulty })
	log := slog.New(slog.DiscardHandler)
	rt := httpx.NewRouter(auth.NewTokens(testKey, time.Now), log, "test", prometheus.NewRegistry())
	if err := web.Pages(rt, web.Shop); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(rt)
	t.Cleanup(srv.Close)
	sub := rush(7, 42)
	c, err := json.Marshal(b.challenge(Pow, sub))
	if err != nil {
		t.Fatal(err)
	}
	var solved struct {
		Header string
		Took   float64 // milliseconds
	}
	script := fmt.Sprintf(`import("/static/pow.js").then(async (m) => {
		const began = performance.now()
		return { Header: await m.solve(%s), Took: performance.now() - began }
	})`, c)
	err = chromedp.Run(ctx, chromedp.Navigate(srv.URL+"/static/words.js"), // any page of the same origin
		chromedp.Evaluate(script, &solved, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("difficulty %d took %.0f ms", b.cfg.Difficulty, solved.Took)
	if got := outcome(b.check(Pow, sub, solved.Header)); got != "ok" {
		t.Errorf("%q: %s", solved.Header, got)
	}
}
