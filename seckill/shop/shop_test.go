package shop_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/config"
	"stampede/platform/base/currency"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/require"
	"stampede/seckill/shop"
)

// read returns every file of the pages by name.
func read(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*/*")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	files := map[string]string{}
	for _, name := range names {
		raw, err := os.ReadFile(name) // a file of this folder
		require.NoError(t, err)
		files[filepath.Base(name)] = string(raw)
	}
	return files
}

// svgNamespace is an identifier, not a URL to load.
const svgNamespace = "http://www.w3.org/2000/svg"

func TestScriptsBuildNoMarkupAndLoadNothingElsewhere(t *testing.T) {
	t.Parallel()
	for name, text := range read(t) {
		if strings.HasSuffix(name, ".js") && regexp.MustCompile(`innerHTML|eval\(|https?://[^$]`).MatchString(strings.ReplaceAll(text, svgNamespace, "")) {
			t.Errorf("%s builds markup from strings, or loads something from another host", name)
		}
	}
}

// The script writes amounts with the decimals that the books count in, for each currency.
func TestScriptHasTheCurrenciesOfTheBooks(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(read(t)["words.js"], "const decimals = {")
	table, _, _ = strings.Cut(table, "}")
	script := map[string]int{}
	for _, m := range regexp.MustCompile(`([A-Z]{3}): (\d)`).FindAllStringSubmatch(table, -1) {
		script[m[1]], _ = strconv.Atoi(m[2])
	}
	if len(script) < 20 {
		t.Fatalf("words.js has the decimals of %d currencies", len(script))
	}
	const letters = 26
	for i := range letters * letters * letters {
		code := string([]byte{byte('A' + i/letters/letters), byte('A' + i/letters%letters), byte('A' + i%letters)})
		digits, listed := script[code]
		if !listed {
			digits = 2
		}
		if want := currency.Decimals(code); digits != want {
			t.Errorf("%s has %d decimals in words.js, want %d", code, digits, want)
		}
	}
}

// pages returns a router with the pages of a shop, and what it sells, by id.
func pages(t testing.TB, settings ...func(*shop.Settings)) (*httpx.Router, map[string]string) {
	t.Helper()
	rt := httpx.NewRouter(auth.NewTokens([]byte("6f1c0a92d8e54b7391aa02c4f1e0d9b8e5"), time.Now), slog.New(slog.DiscardHandler), "test", prometheus.NewRegistry())
	items := map[string]string{"7": `{"id":"7","title":"Phone","image_url":"https://cdn.example.com/7.png"}`}
	item := func(ctx context.Context, id int64) ([]byte, error) {
		switch doc, ok := items[strconv.FormatInt(id, 10)]; {
		case !ok:
			return nil, nil
		case doc == "": // Redis is away
			<-ctx.Done()
			return nil, ctx.Err()
		default:
			return []byte(doc), nil
		}
	}
	cfg := shop.Config{Settings: config.Defaults[shop.Settings](), BaseURL: "https://shop.example.com", Zone: time.FixedZone("CST", 8*3600), Item: item, Codes: true}
	cfg.Demo = true
	for _, set := range settings {
		set(&cfg.Settings)
	}
	require.NoError(t, errors.Join(cfg.Check(), shop.Pages(rt, cfg)))
	return rt, items
}

func get(rt *httpx.Router, path, header, value string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	r.Header.Set(header, value)
	w := httptest.NewRecorder()
	rt.ServeHTTP(w, r)
	return w
}

// plain is an answer's text, whether it was sent compressed or not.
func plain(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var body io.Reader = bytes.NewReader(w.Body.Bytes())
	switch w.Header().Get("Content-Encoding") {
	case "gzip":
		var err error
		if body, err = gzip.NewReader(body); err != nil {
			t.Fatal(err)
		}
	case "br":
		body = brotli.NewReader(body)
	}
	text, err := io.ReadAll(body)
	require.NoError(t, err)
	return string(text)
}

// TestTextsExistInBothLanguages checks the texts that the pages look up by
// key, and the keys that they build from the API's codes.
func TestTextsExistInBothLanguages(t *testing.T) {
	t.Parallel()
	files := read(t)
	zh, rest, ok := strings.Cut(files["words.js"], "const en = {")
	en, _, ok2 := strings.Cut(rest, "\n};")
	if !ok || !ok2 {
		t.Fatal("words.js has an unexpected form")
	}
	_, own, ok := strings.Cut(files["live.js"], "\nadd({\n")
	zhOwn, rest, ok2 := strings.Cut(own, "}, {\n")
	enOwn, _, _ := strings.Cut(rest, "});")
	if !ok || !ok2 {
		t.Fatal("the words of live.js have an unexpected form")
	}
	zh, en = zh+zhOwn, en+"\n"+enOwn
	word := regexp.MustCompile(`(?m)(?:^|[ {])"?([a-z][A-Za-z_ -]*)"?: "([^"]*)"`)
	place := regexp.MustCompile(`\{\w+\}`)
	// words returns the keys of a language, and for each the placeholders in its
	// text.
	words := func(text string) (keys, places []string) {
		for _, m := range word.FindAllStringSubmatch(text, -1) {
			keys = append(keys, m[1])
			for _, p := range place.FindAllString(m[2], -1) {
				places = append(places, m[1]+p)
			}
		}
		slices.Sort(keys)
		slices.Sort(places)
		return slices.Compact(keys), places
	}
	have, places := words(en)
	other, otherPlaces := words(zh)
	require.Equal(t, "words in English and Chinese", have, other)
	if !slices.Equal(places, otherPlaces) || !slices.Contains(places, "step_line{n}") {
		t.Errorf("English and Chinese have different values in their words:\n%v\n%v", places, otherPlaces)
	}
	var used []string
	for name, text := range files {
		if name == "words.js" {
			continue
		}
		for _, m := range regexp.MustCompile(`\bt\("([^"]+)"[,)]|data-(?:t|label)="([^"]+)"`).FindAllStringSubmatch(text, -1) {
			used = append(used, m[1]+m[2])
		}
	}
	for _, status := range []string{"pending_payment", "paid", "completed", "closed", "refused", "refunding", "refunded", "refund_failed"} {
		used = append(used, "step_"+status)
	}
	for _, status := range []string{"queued", "pending_payment", "paid", "completed", "closed", "refused", "refunding", "refunded", "refund_failed"} {
		used = append(used, "state_"+status)
	}
	for _, line := range []string{
		"order_pending_payment", "order_paid", "order_completed", "order_closed", "order_refused", "order_refunding", "order_refunded", "order_refund_failed",
		"payment_created", "payment_captured", "payment_closed", "dispute_open", "dispute_answered", "dispute_closed",
		"refund_awaiting_approval", "refund_rejected", "refund_requested", "refund_succeeded", "refund_failed", "refund_settled_by_hand", "refund_charged_back", "refund_replaced",
	} {
		used = append(used, "line_"+line)
	}
	for _, reason := range []string{"duplicate", "shortfall", "interrupted", "not-available", "timeout", "canceled", "withdrawn"} {
		used = append(used, "reason_"+reason)
	}
	for _, status := range []string{"upcoming", "on_sale", "preparing", "all_held", "sold_out", "paused", "ended"} {
		used = append(used, "status_"+status)
	}
	for _, word := range used {
		if !slices.Contains(have, word) {
			t.Errorf("there is no text for %q", word)
		}
	}
	if len(used) < 60 {
		t.Errorf("only %d texts were found in use: the search is wrong", len(used))
	}
}

func TestPagesCanBeCached(t *testing.T) {
	t.Parallel()
	rt, _ := pages(t)
	document := plain(t, get(rt, "/", "Accept-Encoding", ""))
	script := regexp.MustCompile(`"(/static/[0-9a-f]{12}/)main\.js"`).FindStringSubmatch(document)
	if script == nil || strings.Contains(document, `"/static/main.js"`) {
		t.Fatalf("the document does not name its files by their content:\n%s", document)
	}
	for path, want := range map[string]string{
		"/": "public, max-age=10, stale-while-revalidate=60", "/?item=7": "public, max-age=10, stale-while-revalidate=60", script[1] + "main.js": "public, max-age=31536000, immutable", script[1] + "style.css": "public, max-age=31536000, immutable",
		"/static/buy.js": "public, max-age=30, stale-if-error=86400", "/static/style.css": "public, max-age=60", "/static/000000000000/main.js": "public, max-age=60",
	} {
		first := plain(t, get(rt, path, "Accept-Encoding", ""))
		for accepted, encoding := range map[string]string{"": "", "gzip": "gzip", "br, gzip;q=0.5": "br"} {
			w := get(rt, path, "Accept-Encoding", accepted)
			tag := w.Header().Get("ETag")
			if w.Code != 200 || w.Header().Get("Cache-Control") != want || tag == "" || !strings.HasSuffix(w.Header().Get("Vary"), "Accept-Encoding") {
				t.Errorf("%s: %d, %v", path, w.Code, w.Header())
			}
			if w.Header().Get("Content-Encoding") != encoding || plain(t, w) != first || first == "" {
				t.Errorf("%s for a client that takes %q: %v", path, accepted, w.Header())
			}
			again := httptest.NewRequest("GET", path, nil)
			again.Header.Set("If-None-Match", tag)
			again.Header.Set("Accept-Encoding", accepted)
			w = httptest.NewRecorder()
			rt.ServeHTTP(w, again)
			require.Equal(t, path+" with its tag", w.Code, 304)
		}
	}
	require.Equal(t, "status of a missing file", get(rt, "/static/secret", "Accept-Encoding", "").Code, 404)
}

// Pages of other sites load the element, and the worker and the solver with it.
func TestElementIsSmallAndForEverySite(t *testing.T) {
	t.Parallel()
	rt, _ := pages(t, func(s *shop.Settings) { s.ShopAccent = "#0a5fd0" })
	w := get(rt, "/static/buy.js", "Accept-Encoding", "br")
	require.Equal(t, "who may load it", w.Header().Get("Access-Control-Allow-Origin"), "*")
	if n := w.Body.Len(); n > 25_000 {
		t.Errorf("the element has %d bytes compressed, want 25,000 at most", n)
	}
	script := plain(t, w)
	require.Contains(t, "the element", script, "var(--stampede-accent,#0a5fd0)")
	var loads []string // a module more would be a second copy of what the element has
	for _, m := range regexp.MustCompile(`(?:import\(|from|new URL\()"\./([^"]+)"`).FindAllStringSubmatch(script, -1) {
		require.Equal(t, "status of "+m[1], get(rt, "/static/"+m[1], "Accept-Encoding", "").Code, 200)
		loads = append(loads, m[1])
	}
	slices.Sort(loads)
	require.Equal(t, "what the element loads", slices.Compact(loads), []string{"goods.svg", "pow.js", "ticker.js", "verifier.js"})
}

// says checks that a document has some texts, and has not those that begin with "!".
func says(t *testing.T, rt *httpx.Router, path, language string, status int, texts ...string) {
	t.Helper()
	w := get(rt, path, "Accept-Language", language)
	document := plain(t, w)
	require.Equal(t, path, w.Code, status)
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
	require.Equal(t, "Vary, without which caches would mix the languages", get(rt, "/", "Accept-Language", "zh").Header().Values("Vary"), []string{"Accept-Language, Accept-Encoding"})
}

func TestDocumentsHaveTheShopsFace(t *testing.T) {
	t.Parallel()
	logo := filepath.Join(t.TempDir(), "our.svg")
	require.NoError(t, os.WriteFile(logo, []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`), 0o600))
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
