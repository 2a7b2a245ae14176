package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
	"stampede/platform/workshop/tooltest"
)

// cornerShop is the example of a shop that lets Stampede run its sale, in a process of its own.
type cornerShop struct {
	t    *testing.T
	url  string
	args []string
	cmd  *exec.Cmd
}

// start starts it with the books that it has.
func (c *cornerShop) start() {
	c.t.Helper()
	c.cmd = exec.Command(c.args[0], c.args[1:]...) //nolint:gosec,noctx // built by the test, and killed by it
	c.cmd.Stderr = c.t.Output()
	require.NoError(c.t, c.cmd.Start())
	pgtest.Eventually(c.t, 30*time.Second, func() bool {
		got, err := http.Get(c.url + "/books") //nolint:noctx // of this machine
		if err == nil {
			_ = got.Body.Close()
		}
		return err == nil
	}, "the shop opens")
}

func (c *cornerShop) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	_ = c.cmd.Wait()
}

type cornerBooks struct {
	Status             map[string]string
	Captured, Refunded int64
}

func (c *cornerShop) books() (b cornerBooks) {
	c.t.Helper()
	require.NoError(c.t, json.Unmarshal(httpxtest.Send(c.t, http.DefaultClient, http.MethodGet, c.url+"/books", "", "").Raw, &b))
	return b
}

func (c *cornerShop) clerk(does, no string) {
	c.t.Helper()
	a := httpxtest.Send(c.t, http.DefaultClient, http.MethodPost, c.url+"/"+does+"/"+no, "", "")
	require.Equal(c.t, does+": "+string(a.Raw), a.Status, http.StatusOK)
}

// inElement is an expression about what is within the element.
func inElement(selector string) string {
	return `document.querySelector("stampede-buy").shadowRoot.querySelector(` + strconv.Quote(selector) + `)`
}

// press presses a button within the element once it is enabled and says so.
func press(selector, text string) chromedp.Action {
	return chromedp.Tasks{
		until(inElement(selector+":not([disabled])") + `?.textContent.includes(` + strconv.Quote(text) + `)`),
		chromedp.Evaluate(inElement(selector)+".click()", nil, asAPerson),
	}
}

// A shop with users, a page and books of its own sells ten units through the element, on another site than Stampede's,
// whose cookies the browser blocks, and with the rush on a third name, while it is killed twice and an instance of Stampede once; its books and Stampede's
// are the same.
func TestShopBesideStampede(t *testing.T) {
	t.Parallel()
	program := tooltest.Command(t, "nginx")
	ctx := browser(t)
	binary := filepath.Join(t.TempDir(), "corner")
	sources, err := filepath.Glob("platform/workshop/corner/*")
	require.NoError(t, err)
	lines := 0
	for _, name := range sources { // so that a change of it repeats this test
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			lines += strings.Count(string(source), "\n")
		}
	}
	require.Equal(t, "more than the 300 lines that the README says", lines > 300, false)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./platform/workshop/corner").CombinedOutput() //nolint:gosec // its own
	require.Equal(t, "go build: "+string(out), err, nil)

	databaseURL, redisURL := pgtest.DatabaseURL(t), pgtest.RedisURL(t)
	addr, corner := shop.FreeAddr(t), shop.FreeAddr(t)
	page := "http://" + strings.Replace(corner, "127.0.0.1", "localhost", 1)
	rushName := "http://" + strings.Replace(addr, "127.0.0.1", "localhost", 1)
	args := []string{
		"--nats-url=" + bustest.StartServer(t).URL, "--trusted-proxies=127.0.0.1", "--public-url=http://" + addr, "--rush-url=" + rushName,
		"--allowed-origins=" + page, "--order-url=" + page + "/", "--webhook-private",
		"--oidc-issuer=http://127.0.0.1:1", "--oidc-audience=none", // one that is away stops neither a start nor the sale
	}
	serve := func() *shop.Instance {
		listen := shop.FreeAddr(t)
		in := shop.Serve(t, databaseURL, redisURL, append(args, "--listen="+listen)...)
		in.URL = "http://" + listen // it prints the public one
		return in
	}
	first, second := serve(), serve()
	_, log := shop.StartNginxAt(t, addr, program, first, second)

	for _, in := range []*shop.Instance{first, second} { // compressed at the first request, for which nginx may not wait under the race detector
		require.Equal(t, "the element", httpxtest.Send(t, http.DefaultClient, http.MethodGet, in.URL+"/static/buy.js", "", "", "Accept-Encoding", "br").Status, http.StatusOK)
	}

	admin := shop.Mint(t, 1, auth.Admin)
	key := fmt.Sprint(second.Do(t, http.MethodPost, "/api/v1/admin/api-keys", admin, map[string]any{
		"name": "Corner", "scopes": []string{"plan:write", "orders:read", "orders:write", "events:read", "users:exchange"},
	}, http.StatusCreated)["key"])
	hook := second.Do(t, http.MethodPost, "/api/v1/admin/webhooks", admin, map[string]any{"url": "http://" + corner + "/events"}, http.StatusCreated)
	c := &cornerShop{t: t, url: "http://" + corner, args: []string{
		binary, "--stampede=http://" + addr, "--key=" + key, "--secret=" + hook["secret"].(string), "--listen=" + corner,
		"--journal=" + filepath.Join(t.TempDir(), "journal"), "--opens=" + time.Now().Add(30*time.Second).Format(time.RFC3339),
	}}
	c.start()
	t.Cleanup(func() { c.kill() })

	const units = 10
	rushes, pushes := make(chan string, 10*units), make(chan string, 10*units) // hosts that got a rush; ways of pushes that have opened
	chromedp.ListenTarget(ctx, func(event any) {
		switch got := event.(type) {
		case *network.EventWebSocketHandshakeResponseReceived:
			pushes <- "socket"
		case *network.EventResponseReceived:
			if strings.HasSuffix(got.Response.URL, "/api/v1/sse") && got.Type == network.ResourceTypeFetch {
				pushes <- "stream"
			}
		case *network.EventRequestWillBeSent:
			if host, _, rush := strings.Cut(got.Request.URL, "/api/v1/rush/"); rush {
				rushes <- host
			}
		}
	})
	for user := 1; user <= units; user++ {
		way, presses := "socket", press("#buy", "Buy")
		switch user {
		case 1: // before the opening
			presses = chromedp.Tasks{until(inElement("#arm") + "?.checkVisibility({ visibilityProperty: true })"), chromedp.Evaluate(inElement("#arm")+".click()", nil), until(inElement("sale-card") + `.dataset.armed === "true"`)}
		case units/2 + 1:
			do(ctx, t, "a network that lets no socket open", onEachDocument(noSockets))
		}
		if user > units/2 {
			way = "stream"
		}
		buysAtTheCorner(ctx, t, page, fmt.Sprintf("Li %d", user), presses, chromedp.ActionFunc(func(ctx context.Context) error {
			for {
				select {
				case opened := <-pushes:
					if opened == way {
						return nil
					}
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}))
		switch user {
		case 3, 6:
			c.kill()
			c.start()
		case 5:
			first.Kill()
		}
	}
	require.Equal(t, "fewer rushes than users", len(rushes) < units, false)
	for range len(rushes) {
		require.Equal(t, "where a rush went", <-rushes, rushName)
	}
	served, err := os.ReadFile(log)
	require.NoError(t, err)
	for _, worker := range []string{"/static/ticker.js", "/static/pow.js"} { // as workers of a page of another site
		require.Contains(t, "nginx's log", string(served), worker)
	}
	pgtest.Eventually(t, time.Minute, func() bool { b := c.books(); return len(b.Status) == units && b.Captured == 9900 }, "ten payments in the shop's books")
	pgtest.Eventually(t, time.Minute, func() bool { // posted, whatever was pulled too
		posted := map[any]bool{}
		for _, a := range second.Do(t, http.MethodGet, "/api/v1/admin/webhooks/"+hook["id"].(string)+"/attempts?limit=100", admin, nil, http.StatusOK)["data"].([]any) {
			if a := a.(map[string]any); a["type"] == "payment.captured" && a["status"] == 200.0 {
				posted[a["event_id"]] = true
			}
		}
		return len(posted) == units
	}, "ten payments were posted")
	var nos []string
	for no := range c.books().Status {
		nos = append(nos, no)
	}
	// The webhook is gone: what happens from here on is pulled.
	second.Do(t, http.MethodDelete, "/api/v1/admin/webhooks/"+hook["id"].(string), admin, nil, http.StatusOK)
	c.clerk("ship", nos[0])
	c.clerk("refund", nos[1])
	operator := shop.Mint(t, 2, auth.Operator)
	pgtest.Eventually(t, time.Minute, func() bool {
		_, doc := second.Call(t, http.MethodGet, "/api/v1/admin/orders/"+nos[1], operator, nil)
		return doc["order"].(map[string]any)["status"] == "refunded"
	}, "the refund")
	c.kill()
	c.start()
	pgtest.Eventually(t, time.Minute, func() bool { return c.books().Refunded == 990 }, "the refund in the shop's books")
	ours := map[string]string{}
	for _, o := range second.Do(t, http.MethodGet, "/api/v1/admin/orders?limit=100", operator, nil, http.StatusOK)["data"].([]any) {
		o := o.(map[string]any)
		ours[o["order_no"].(string)] = o["status"].(string)
	}
	require.Equal(t, "the shop's books and Stampede's", c.books().Status, ours)
	pgtest.Eventually(t, 2*time.Minute, func() bool {
		return len(second.Do(t, http.MethodGet, "/api/v1/admin/alarms?code=issuer-away", operator, nil, http.StatusOK)["data"].([]any)) == 1
	}, "the alarm about the issuer")
	shop.Command(t, 0, "verify", "--database-url="+databaseURL, "--redis-url="+redisURL)
}

// noSockets lets no WebSocket open.
const noSockets = `{ WebSocket = class { constructor() { queueMicrotask(() => this.onclose()); } close() {} } }`

// buysAtTheCorner takes a user of the shop from its login to a paid order.
func buysAtTheCorner(ctx context.Context, t *testing.T, page, user string, presses, pushed chromedp.Action) {
	t.Helper()
	var pays string
	do(ctx, t, user+" buys on the shop's page",
		network.Enable(), network.SetCookieControls(true, true, true), network.ClearBrowserCookies(), chromedp.Navigate(page),
		until(`document.querySelector("#login")`), chromedp.Evaluate(`document.querySelector("#login input").value = `+strconv.Quote(user), nil), click("#login button"),
		until(`document.body.innerText.includes(`+strconv.Quote("Hello "+user)+`)`),
		presses, until(`document.querySelector("#said").textContent.includes("A unit is yours")`), shot("corner-granted"), pushed,
		chromedp.Evaluate(`window.open = (url) => { window.opened = url }`, nil),
		press("#buy", "Checkout"), until(inElement("dialog #pay")), shot("corner-pays"), press("dialog #pay", "Pay"), until("window.opened"), chromedp.Evaluate("window.opened", &pays))
	a := httpxtest.Send(t, http.DefaultClient, http.MethodPost, pays, "", `{"action":"pay"}`)
	require.Equal(t, "at the bank: "+string(a.Raw), a.Status, http.StatusOK)
	do(ctx, t, user+" has paid", until(`document.querySelector("#said").textContent.includes("Thank you")`), until(inElement("sale-card")+`.dataset.pushed === "paid"`))
}
