package browser

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// sellingPage is a page of another site. Its login is next, a token that it hands over once; without one it has ended.
const sellingPage = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Corner</title>
<style>html { color-scheme: light dark } body { font: 16px/1.5 Georgia, serif; max-width: 30rem; margin: 2rem auto; padding: 0 1rem }</style>
<script type="module" src="%s/static/buy.js"></script><stampede-buy item="%s" %s></stampede-buy>
<script>
	const buy = document.querySelector("stampede-buy"), told = [], asked = []
	let next = %q
	const token = async ({ renew }) => {
		asked.push(renew)
		const given = next
		next = ""
		if (!given) throw new Error("not logged in")
		return given
	}
	if (next) buy.token = token
	for (const of of ["login", "granted", "refused"]) buy.addEventListener(of, (e) => told.push([of, e.detail?.order_no ?? e.detail?.code ?? ""].join(" ").trim()))
</script>`

// kept is the number of the attempt that the element remembers.
const kept = `Object.entries(localStorage).filter(([key]) => key.startsWith("stampede-attempt-")).map(([, text]) => JSON.parse(text).no ?? "").join()`

// An element on another site than Stampede's, whose cookies the browser blocks, has the colours that its page and the
// shop give it. Its shopper solves a slide there, and loses nothing when the page's token ends in the middle.
func TestElementOnAnotherSite(t *testing.T) {
	t.Parallel()
	tab, redisURL := browser(t), pgtest.RedisURL(t)
	addr := shop.FreeAddr(t)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, sellingPage, "http://"+addr, r.FormValue("item"), r.FormValue("with"), r.FormValue("token")) //nolint:gosec // the test's
	}))
	t.Cleanup(site.Close)
	here := strings.Replace(site.URL, "127.0.0.1", "localhost", 1)
	in := shop.Serve(t, pgtest.DatabaseURL(t), redisURL, "--listen="+addr, "--public-url=http://"+addr, "--allowed-origins="+here, "--shop-accent=#0a5fd0",
		"--human-check-strength=low", "--challenges-per-minute=0")
	rdb := pgtest.RedisAt(t, redisURL)
	token := func(life time.Duration) string {
		made, err := auth.NewTokens([]byte(shop.Key), time.Now).Mint(auth.Principal{UserID: 31, Role: auth.Shopper}, life)
		require.NoError(t, err)
		return made
	}
	opens := func(item, with, token string) chromedp.Action {
		return chromedp.Tasks{network.SetCookieControls(true, true, true), chromedp.Navigate(here + "/?item=" + item + "&with=" + with + "&token=" + token), until(inElement("#buy") + `?.textContent`)}
	}
	media := func(scheme string) chromedp.Action {
		return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}})
	}
	colour := func(selector, property, want string) chromedp.Action {
		return until(`getComputedStyle(` + inElement(selector) + `).` + property + ` === ` + strconv.Quote(want))
	}
	hands := func(token string) chromedp.Action {
		return chromedp.Evaluate(`next = `+strconv.Quote(token), nil)
	}
	const white, dark = "rgb(255, 255, 255)", "rgb(28, 32, 38)"

	now := planAsked(t, in, askingSale{human: "none"})
	do(tab, t, "be light beside a dark screen", media("dark"), opens(now, "", ""), colour(".card", "backgroundColor", white), colour("#buy", "backgroundColor", "rgb(10, 95, 208)"))
	do(tab, t, "be dark where the page says so", media("light"), opens(now, "scheme=dark", ""), colour(".card", "backgroundColor", dark), colour(".card", "colorScheme", "dark"))
	do(tab, t, "follow the screen, and the page's colour", opens(now, `scheme=auto+style="--stampede-accent:%231b5e4b"`, ""), colour(".card", "backgroundColor", white),
		colour("#buy", "backgroundColor", "rgb(27, 94, 75)"), media("dark"), colour(".card", "backgroundColor", dark))
	readable(tab, t, "element")

	soon := planAsked(t, in, askingSale{human: "slide", opensIn: 40 * time.Second})
	slides := func(what string) {
		do(tab, t, what, until(inElement("dialog.slide .picture")+`?.checkVisibility()`))
		do(tab, t, what, slideTo(tileAnswer(t, rdb)))
	}
	const life = 20 * time.Second // of a token: enough to get a slide with it on a busy machine
	var no, said string
	ends := time.Now().Add(life)
	do(tab, t, "arm with a token that ends soon", opens(soon, "compact+scheme=auto", token(life)), until(`[".sale > .picture", ".about"].every((part) => !`+inElement("sale-card")+`.querySelector(part).checkVisibility())`),
		chromedp.Evaluate(inElement("#arm")+`.click()`, nil), until(inElement("dialog.slide")))
	readable(tab, t, "element-slide")
	do(tab, t, "wait until it has ended", until(`Date.now() > `+strconv.FormatInt(ends.Add(time.Second).UnixMilli(), 10)))
	slides("solve the slide in vain")
	do(tab, t, "be asked for a login", until(inElement("#said")+`.textContent.includes("Log in again")`))
	used, err := rdb.Keys(t.Context(), "human:slide:*").Result()
	require.NoError(t, errors.Join(err, rdb.Del(t.Context(), used...).Err()))
	readable(tab, t, "element-login-ended")
	do(tab, t, "ask the page for one", press("#buy", "Log in"), until(`told.includes("login")`))
	// The next one lasts until the path is there, which a page asks for up to the opening, and may end before the order.
	do(tab, t, "log in there", hands(token(3*life)), chromedp.Evaluate(`buy.token = token`, nil), until(inElement("sale-card")+`.dataset.armed === "true"`))
	slides("solve another slide")
	do(tab, t, "have a path", until(kept+` !== ""`), chromedp.Evaluate(kept, &no))
	do(tab, t, "be ordered, with another token if need be", hands(token(time.Hour)), until(inElement("sale-card")+`.dataset.order === "pending_payment"`), chromedp.Evaluate(`told.join(", ")`, &said))
	require.Equal(t, "what the page was told", said, "login, granted "+no)
	readable(tab, t, "element-won")
	do(tab, t, "see the way to pay", press("#buy", "Checkout"), until(inElement("dialog #pay")))
	readable(tab, t, "element-pays")
}
