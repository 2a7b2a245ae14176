package browser

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/quickstart"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// loaded sums what a page has loaded, as it was transferred, headers included.
const loaded = `[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")].reduce((sum, r) => sum + r.transferSize, 0)`

// shownCode is the code that a reader sees.
const shownCode = `[...document.querySelectorAll("pre")].filter((p) => p.checkVisibility()).map((p) => p.textContent.trim())`

// TestDocumentationIsReadable reads the quick start in both languages and all of its programs' languages, and loads the
// documentation for the first time.
func TestDocumentationIsReadable(t *testing.T) {
	t.Parallel()
	in := shop.Serve(t, pgtest.DatabaseURL(t), pgtest.RedisURL(t))
	tab := browser(t)
	var bytes int
	do(tab, t, "come for the first time", emulation.SetDeviceMetricsOverride(390, 800, 1, true),
		chromedp.Navigate(in.URL+"/docs"), until(`document.querySelector(".opblock") && document.querySelector('nav a[href="/docs/start"]')`), chromedp.Evaluate(loaded, &bytes))
	if bytes > 600_000 || bytes < 100_000 {
		t.Errorf("the documentation takes %d bytes, want at most 600000", bytes)
	}
	do(tab, t, "go to the quick start", chromedp.Evaluate(`performance.clearResourceTimings()`, nil), click(`nav a[href="/docs/start"]`), until(`document.querySelector("h1")?.textContent === "Quick start"`), chromedp.Evaluate(loaded, &bytes))
	if bytes > 20_000 {
		t.Errorf("the quick start takes %d bytes, want at most 20000", bytes)
	}
	do(tab, t, "look a code up", chromedp.Navigate(in.URL+"/docs/problems#sold-out"), until(`document.querySelector(":target")?.textContent.includes("已售罄")`), until(fitsPhone))
	require.Contains(t, "the page of a Chinese browser", string(httpxtest.Send(t, http.DefaultClient, http.MethodGet, in.URL+"/docs/start", "", "", "Accept-Language", "zh-CN,zh;q=0.9").Raw), `<html lang="zh">`, "接收通知")
	for _, c := range []struct{ language, title, choice, program string }{
		{"en", "Quick start", "curl", "sale.sh"}, {"en", "Quick start", "go", "sale.go"}, {"zh", "快速开始", "ts", "sale.ts"},
	} {
		var shown []string
		do(tab, t, "read "+c.program, chromedp.Navigate(in.URL+"/docs/start?language="+c.language), until(`document.querySelector("h1")?.textContent === `+strconv.Quote(c.title)),
			click("#"+c.choice), chromedp.Evaluate(shownCode, &shown), until(fitsPhone), shot("start-"+c.choice))
		code := strings.Join(shown, "\n")
		require.Contains(t, "the page", code, "export SHOP="+in.URL)
		for _, part := range []string{"client", "plan", "sell", "receive"} {
			require.Contains(t, "the page", code, strings.TrimSpace(quickstart.Cut(c.program, part)))
		}
		if strings.Contains(code, "\nfunc ") != (c.choice == "go") || strings.Contains(code, "curl -sS") != (c.choice == "curl") {
			t.Errorf("with %s chosen the page shows:\n%s", c.choice, code)
		}
		for _, scheme := range []string{"light", "dark"} {
			var faint []string
			do(tab, t, "look in the "+scheme, emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}), chromedp.Evaluate(faintTexts, &faint))
			require.Equal(t, scheme+": faint texts", strings.Join(faint, "\n"), "")
		}
	}
}
