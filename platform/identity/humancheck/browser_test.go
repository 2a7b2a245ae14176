package humancheck

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/config"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/tooltest"
)

// chromium starts a headless browser.
func chromium(t *testing.T) context.Context {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(tooltest.Chromium(t)), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-component-update", true))
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, closeTab := chromedp.NewContext(alloc)
	ctx, late := context.WithTimeout(ctx, 5*time.Minute) // for a busy machine
	t.Cleanup(func() { late(); closeTab(); stop(); chromedp.FromContext(alloc).Allocator.Wait() })
	return ctx
}

// TestABrowserSolvesTheWork runs the solver in its worker, under the headers that pages
// are served with.
func TestABrowserSolvesTheWork(t *testing.T) {
	t.Parallel()
	ctx := chromium(t)
	b := setup(t, func(c *Config, _ *Deps) { c.Difficulty = NewConfig(config.Defaults[Settings](), "").Difficulty })
	log := slog.New(slog.DiscardHandler)
	rt := httpx.NewRouter(auth.NewTokens(testKey, time.Now), log, "test", prometheus.NewRegistry())
	rt.Handle(httpx.Static, http.MethodGet, "/static/pow.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = io.WriteString(w, Solver)
	})
	srv := httptest.NewServer(rt)
	t.Cleanup(srv.Close)
	sub := rush(7, 42)
	c, err := json.Marshal(b.challenge(Pow, sub))
	require.NoError(t, err)
	var solved struct {
		Header string
		Took   float64 // milliseconds
	}
	script := fmt.Sprintf(`import("/static/pow.js").then(async (m) => {
		const began = performance.now()
		return { Header: await m.solve(%s), Took: performance.now() - began }
	})`, c)
	err = chromedp.Run(ctx, chromedp.Navigate(srv.URL+"/static/pow.js"), // any page of the same origin
		chromedp.Evaluate(script, &solved, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	require.NoError(t, err)
	t.Logf("difficulty %d took %.0f ms", b.cfg.Difficulty, solved.Took)
	if got := outcome(b.check(Pow, sub, solved.Header)); got != "ok" {
		t.Errorf("%q: %s", solved.Header, got)
	}
}
