package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"stampede/platform/edge/auth"
)

// hurry makes a page's timers run a hundred times as fast.
const hurry = `{ const later = setTimeout; window.setTimeout = (f, ms, ...rest) => later(f, ms / 100, ...rest) }`

// prices are in minor units, which are not hundredths everywhere; the browser knows.
const prices = `import("/static/words.js").then(({ money }) => ["CNY", "JPY", "KWD"].map((currency) => money({ amount: 9900, currency }).replace(/[^0-9.,]/g, "")).join(" "))`

// listAsked counts the page's requests for the list of sessions.
const listAsked = `performance.getEntriesByType("resource").filter((r) => r.name.includes("/sessions?")).length`

// lookAtAnEmptyShop returns the commands that its page shows, on a phone and a
// desktop, and checks how the page polls for new sessions.
func lookAtAnEmptyShop(tab context.Context, t *testing.T, in *instance) (commands string) {
	t.Helper()
	var shown string
	var seen, later int
	var remove page.ScriptIdentifier
	do(tab, t, "open an empty shop",
		chromedp.ActionFunc(func(ctx context.Context) (err error) {
			remove, err = page.AddScriptToEvaluateOnNewDocument(hurry).Do(ctx)
			return err
		}),
		emulation.SetDeviceMetricsOverride(390, 800, 1, false), chromedp.Navigate(in.url+"/"),
		until(`document.querySelector("pre")`), until(`document.documentElement.scrollWidth <= 390 && document.querySelector("pre").scrollWidth <= document.querySelector("pre").clientWidth`),
		emulation.ClearDeviceMetricsOverride(), chromedp.Evaluate(`document.querySelector("pre").textContent`, &commands))

	do(tab, t, "poll only while visible",
		until(listAsked+` > 2`),
		chromedp.Evaluate(`Object.defineProperty(document, "hidden", { value: true, configurable: true }); `+listAsked, &seen),
		chromedp.Evaluate(`new Promise((done) => setTimeout(done, 30_000))`, nil, awaitPromise))
	do(tab, t, "count", chromedp.Evaluate(listAsked, &later))
	if later > seen+1 { // one may have been in flight
		t.Errorf("a hidden page polled %d times", later-seen)
	}
	do(tab, t, "become visible again",
		chromedp.Evaluate(`delete document.hidden; document.dispatchEvent(new Event("visibilitychange"))`, nil), until(listAsked+` > `+strconv.Itoa(later)),
		chromedp.Evaluate(prices, &shown, awaitPromise))
	if want := "99.00 9,900 9.900"; shown != want {
		t.Errorf("9900 minor units of CNY, JPY and KWD are shown as %q, want %q", shown, want)
	}

	do(tab, t, "restore normal timers", chromedp.ActionFunc(func(ctx context.Context) error {
		return page.RemoveScriptToEvaluateOnNewDocument(remove).Do(ctx)
	}))
	return commands
}

// publishAsSaid does what the commands do: it plans a sale, takes the id from
// the answer and publishes it.
func publishAsSaid(t *testing.T, in *instance, commands string) {
	t.Helper()
	plan := regexp.MustCompile(`-d '(\{.*\})'`).FindStringSubmatch(commands)
	if len(plan) < 2 || !strings.Contains(plan[1], `"sale_price":{"amount":0,`) {
		t.Fatalf("the page shows no command that a shop without a payment provider accepts:\n%s", commands)
	}
	operator := mint(t, 1, auth.Operator)
	status, made := in.call(t, http.MethodPost, "/api/v1/admin/activities", operator, json.RawMessage(plan[1]))
	if status != http.StatusCreated {
		t.Fatalf("the page's plan is refused: %d %v", status, made)
	}
	id := regexp.MustCompile(`(?m)^ID=(.*)$`).FindStringSubmatch(commands)
	if id == nil {
		t.Fatalf("the page does not show how to get the id:\n%s", commands)
	}
	answer, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "echo "+id[1])
	cmd.Env = append(cmd.Environ(), "MADE="+string(answer))
	out, err := cmd.Output()
	if got := string(bytes.TrimSpace(out)); err != nil || got != made["id"] {
		t.Errorf("the page's commands extract %q for the id %v: %v", got, made["id"], err)
	}
	if status, doc := in.call(t, http.MethodPost, "/api/v1/admin/activities/"+strings.TrimSpace(string(out))+"/publish", operator, nil); status != http.StatusOK {
		t.Fatalf("the page's plan cannot be published: %d %v", status, doc)
	}
}
