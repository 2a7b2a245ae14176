package web_test

import (
	"bytes"
	"compress/gzip"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/web"
)

// read returns every file of the pages by name.
func read(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("static/*")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	files := map[string]string{}
	for _, name := range names {
		raw, err := os.ReadFile(name) //nolint:gosec // a file of this folder
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(name)] = string(raw)
	}
	return files
}

// svgNamespace is an identifier, not a URL to load.
const svgNamespace = "http://www.w3.org/2000/svg"

// mostBytes is the maximum size of a page with everything that it loads initially,
// compressed as proxies do it: half a second on a slow phone connection.
const mostBytes = 32_000

func TestThePagesStaySmall(t *testing.T) {
	t.Parallel()
	files := read(t)
	for _, page := range []string{web.Live, web.Shop} {
		all := compressed(t, files[page])
		for _, m := range regexp.MustCompile(`"/static/([^"]+)"`).FindAllStringSubmatch(files[page], -1) {
			all += compressed(t, files[m[1]])
		}
		if all > mostBytes {
			t.Errorf("%s has %d bytes with what it loads, more than %d", page, all, mostBytes)
		}
	}
	for name, text := range files {
		if strings.HasSuffix(name, ".js") && regexp.MustCompile(`innerHTML|eval\(|https?://[^$]`).MatchString(strings.ReplaceAll(text, svgNamespace, "")) {
			t.Errorf("%s builds markup from strings, or loads something from another host", name)
		}
	}
}

// compressed is the transferred size of a file.
func compressed(t *testing.T, text string) int {
	t.Helper()
	if text == "" {
		t.Error("a page loads a missing file")
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Len()
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
	if !slices.Equal(have, other) {
		t.Errorf("English and Chinese have different words:\n%v\n%v", have, other)
	}
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
	rt := httpx.NewRouter(auth.NewTokens([]byte("6f1c0a92d8e54b7391aa02c4f1e0d9b8e5"), time.Now), slog.New(slog.DiscardHandler), "test", prometheus.NewRegistry())
	if err := web.Pages(rt, web.Shop); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/": "no-cache", "/?qr=1": "no-cache", "/static/main.js": "public, max-age=60", "/static/style.css": "public, max-age=60",
	} {
		w := httptest.NewRecorder()
		rt.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		tag := w.Header().Get("ETag")
		if w.Code != 200 || w.Header().Get("Cache-Control") != want || tag == "" {
			t.Errorf("%s: %d, %v", path, w.Code, w.Header())
		}
		again := httptest.NewRequest("GET", path, nil)
		again.Header.Set("If-None-Match", tag)
		w = httptest.NewRecorder()
		rt.ServeHTTP(w, again)
		if w.Code != 304 {
			t.Errorf("%s with its tag: %d, want 304", path, w.Code)
		}
	}
	w := httptest.NewRecorder()
	rt.ServeHTTP(w, httptest.NewRequest("GET", "/static/secret", nil))
	if w.Code != 404 {
		t.Errorf("a missing file: %d", w.Code)
	}
	if err := web.Pages(rt, "none.html"); err == nil {
		t.Error("a missing page was accepted")
	}
}
