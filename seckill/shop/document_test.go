package shop_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stampede/platform/edge/httpx"
	"stampede/seckill/shop"
)

// says checks that a document has some texts, and has not those that begin with "!".
func says(t *testing.T, rt *httpx.Router, path, language string, status int, texts ...string) {
	t.Helper()
	w := get(rt, path, "Accept-Language", language)
	document := plain(t, w)
	if w.Code != status {
		t.Errorf("%s: %d, want %d", path, w.Code, status)
	}
	for _, text := range texts {
		absent, not := strings.CutPrefix(text, "!")
		if strings.Contains(document, absent) == not {
			t.Errorf("%s in %s: want %s in\n%s", path, language, text, document)
		}
	}
}

func TestDocumentsDescribeThemselves(t *testing.T) {
	t.Parallel()
	rt, items := pages(t)
	items["8"] = `{"id":"8","title":"</title><script>alert(1)</script>\"'{{.}}","spec":"<b>","image_url":"javascript:alert(1)","limit_per_user":2,
		"list_price":{"amount":9900,"currency":"JPY"},"sale_price":{"amount":1200000,"currency":"JPY"},"opens_at":"2026-11-11T12:00:00.000Z"}`
	items["9"] = `{"id":"9","title":"演示手机","spec":"128 GB","image_url":"https://cdn.example.com/9.png","limit_per_user":1,
		"list_price":{"amount":19900,"currency":"CNY"},"sale_price":{"amount":9900,"currency":"CNY"},"opens_at":"2026-11-11T12:00:00.000Z"}`
	items["10"] = "" // never answered

	says(t, rt, "/", "zh-CN", 200, `<html lang="zh">`, "<title>抢购场次 · Stampede</title>", `<link rel="canonical" href="https://shop.example.com/">`, `property="og:type" content="website"`, `data-page="sessions"`, "sessions.js", "开启", "!<footer>", "!og:image", "!/docs")
	says(t, rt, "/?orders", "en", 200, `<html lang="en">`, "<title>My orders · Stampede</title>", "noindex", "!canonical", "!og:url", `data-page="orders"`)
	says(t, rt, "/?item=9", "zh", 200, "<title>演示手机 · Stampede</title>", `href="https://shop.example.com/?item=9"`, `property="og:type" content="product"`, `property="og:image" content="https://cdn.example.com/9.png"`,
		"秒杀价 ¥99.00，原价 ¥199.00，11月11日 20:00 开抢，每人限购 1 件。", `<div class="price">¥99.00<s>¥199.00</s></div>`, "128 GB", `as="fetch" href="/api/v1/items/9" crossorigin>`, `src="https://cdn.example.com/9.png"`)
	says(t, rt, "/?item=9", "en", 200, "¥99.00, was ¥199.00. Starts 11 Nov, 20:00 CST, limit 1 per customer.")
	items["9"] = strings.ReplaceAll(items["9"], "演示手机", "Phone")
	says(t, rt, "/?item=9", "en", 200, "<title>Phone")
	says(t, rt, "/?item=9", "zh", 200, "<title>Phone", "11月11日")
	says(t, rt, "/?item=8", "en", 200, "&lt;/title&gt;&lt;script&gt;", "!<script>alert", "¥1,200,000", "!</title><script>", "!src=\"javascript")
	items["8"] = strings.ReplaceAll(items["8"], "JPY", "RSD")
	says(t, rt, "/?item=8", "en", 200, "RSD12,000.00.")
	says(t, rt, "/?item=404", "en", 404, `data-page="missing"`, "noindex", "This item does not exist", "main.js")
	says(t, rt, "/?item=zq%22%3E", "en", 404, `!zq">`)
	says(t, rt, "/?item=10", "en", 200, `data-page="item"`, "<title>On sale · Stampede</title>", "main.js", "!canonical", "!og:url")
	says(t, rt, "/demo", "en", 200, `data-page="live"`, `id="send"`, `data-guests="/demo/me"`, "live.js")
	if w := get(rt, "/?item=404", "Accept-Encoding", "br"); w.Header().Get("Cache-Control") != "public, max-age=1" || w.Header().Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(plain(t, w), "</html>") {
		t.Errorf("an item that does not exist: %v", w.Header())
	}
	if vary := get(rt, "/", "Accept-Language", "zh").Header().Values("Vary"); !slices.Equal(vary, []string{"Accept-Language, Accept-Encoding"}) {
		t.Errorf("caches would mix the languages: Vary is %v", vary)
	}
}

func TestDocumentsHaveTheShopsFace(t *testing.T) {
	t.Parallel()
	logo := filepath.Join(t.TempDir(), "our.svg")
	if err := os.WriteFile(logo, []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`), 0o600); err != nil {
		t.Fatal(err)
	}
	rt, _ := pages(t, func(s *shop.Settings) {
		s.ShopName, s.ShopLogo, s.ShopAccent, s.ShopTermsURL = "小店 & <Sons>", logo, "#0a5fd0", "https://example.com/terms?a=1"
	})
	says(t, rt, "/", "en", 200, "小店 &amp; &lt;Sons&gt;", ":root{--hot:#0a5fd0;--deep:#07479c}", `name="theme-color" content="#0a5fd0"`, `<footer><a href="https://example.com/terms?a=1">Terms</a></footer>`,
		`property="og:image" content="https://shop.example.com/static/`, "!Privacy")
	address := regexp.MustCompile(`<link rel="icon" href="(/static/[0-9a-f]{12}/logo.svg)">`).FindStringSubmatch(plain(t, get(rt, "/", "Accept-Language", "en")))
	if address == nil {
		t.Fatal("the document names no logo")
	}
	usual, _ := pages(t)
	if folder, _ := filepath.Split(address[1]); strings.Contains(plain(t, get(usual, "/", "Accept-Language", "en")), folder) {
		t.Errorf("a shop with another logo has its files in the same folder, %s, which caches keep for ever", folder)
	}
	if w := get(rt, address[1], "Accept-Encoding", ""); w.Code != 200 || w.Header().Get("Content-Type") != "image/svg+xml" {
		t.Errorf("the logo: %d, %v", w.Code, w.Header())
	}
}
