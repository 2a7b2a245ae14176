package browser

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/pquerna/otp/totp"

	"stampede/platform/workshop/oidctest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// A shop whose own system has the accounts sends shoppers to its login, on another site, and they come back to the page
// where they were. A link with a stranger's token logs no shopper in as the stranger.
func TestAttackTokenOfAStranger(t *testing.T) {
	t.Parallel()
	tab := browser(t)
	issuer := oidctest.New(t)
	in := shop.Serve(t, pgtest.DatabaseURL(t), pgtest.RedisURL(t), "--oidc-issuer="+issuer.URL, "--oidc-audience="+oidctest.Audience, "--oidc-email-claim=email",
		"--login-url="+strings.Replace(issuer.URL, "127.0.0.1", "localhost", 1)+"/login?client=sale")
	item := in.URL + "/?item=" + planAsked(t, in, askingSale{human: "none"})

	var back, state, left string
	at := until(`location.pathname === "/login" && document.forms[0]?.user`)
	logsIn := func(user string) chromedp.Action {
		return chromedp.Tasks{at, fill("[name=user]", user), click("form button")}
	}
	const user = `JSON.parse(localStorage.getItem("stampede-login"))?.user ?? ""`
	do(tab, t, "press the button without a login", chromedp.Navigate(item), click("#buy"), at,
		chromedp.Evaluate(`document.forms[0].return.value`, &back), chromedp.Evaluate(`document.forms[0].state.value`, &state))
	require.Equal(t, "return", back, item)
	require.Equal(t, "length of the state", len(state), 32)
	var li, again string
	do(tab, t, "log in there, and buy here", logsIn("u-li"), until(`document.querySelector("login-box a") && location.href === `+strconv.Quote(item)), chromedp.Evaluate(user, &li),
		chromedp.Evaluate(`sessionStorage.getItem("stampede-login-state") ?? ""`, &left), click("#buy"), ordered("pending_payment"))
	require.Equal(t, "the state afterwards", left, "")
	do(tab, t, "leave no token in the history", chromedp.ActionFunc(func(ctx context.Context) error {
		_, entries, err := page.GetNavigationHistory().Do(ctx)
		for _, entry := range entries {
			require.Equal(t, "a token in the history: "+entry.URL, strings.Contains(entry.URL, "id_token"), false)
		}
		return err
	}))

	forged := func(path string) string {
		return in.URL + path + "#" + url.Values{"id_token": {issuer.Token("u-mallory", nil)}, "state": {state}}.Encode()
	}
	do(tab, t, "stay who one is on a stranger's link", chromedp.Navigate("about:blank"), chromedp.Navigate(forged("/?orders")),
		until(`document.querySelector("#orders a") && location.hash === "" && !document.querySelector("dialog")`), chromedp.Evaluate(user, &again))
	require.Equal(t, "the user after a stranger's link", again, li)
	do(tab, t, "log out, and not be sent to a login that might remember", click("login-box button"), until(`document.querySelector("dialog #elsewhere")`))
	do(tab, t, "be sent there by a page that needs a login", chromedp.Navigate("about:blank"), chromedp.Navigate(in.URL+"/?orders"), at)
	do(tab, t, "not be logged in by the link either", chromedp.Navigate(forged("/?orders")), says("This login was not started on this page"),
		until(`document.querySelectorAll("dialog").length === 1 && location.hash === ""`), chromedp.Evaluate(user, &again))
	require.Equal(t, "the user after a stranger's link", again, "")
	readable(tab, t, "login-elsewhere")
	do(tab, t, "decline", click("#elsewhere"), logsIn(""), says("You did not log in at the shop"), chromedp.Evaluate(`location.href`, &back))
	require.Equal(t, "the page afterwards", back, in.URL+"/?orders")
	do(tab, t, "log in after all", click("#elsewhere"), logsIn("u-li"), until(`document.querySelector("#orders a") && !document.querySelector("dialog")`), chromedp.Evaluate(user, &again))
	require.Equal(t, "the same user as at first", again, li)
	do(tab, t, "see where messages go, and choose", chromedp.Navigate(in.URL+"/?account"),
		until(`document.querySelector("#me").textContent.includes("l****@example.com") && document.querySelector("#messages")`))
	erase := chromedp.Tasks{chromedp.Navigate(in.URL + "/?account"), click("#erase .end button"), click("dialog .end button")}
	do(tab, t, "delete the account as somebody else, in vain", erase, logsIn("u-wang"), until(`document.querySelector("#erase .problem")?.textContent.includes("as another user")`))
	readable(tab, t, "account-elsewhere")
	do(tab, t, "delete the account", erase, logsIn("u-li"), until(`document.querySelector("#erased") && !document.querySelector("dialog")`), chromedp.Evaluate(user, &again))
	require.Equal(t, "the user afterwards", again, "")
}

// What a shopper pressed before leaving for the shop's login goes on at the return: a reservation is made, an attempt
// waits for its opening with its quantity, and nothing is bought that is not pressed for once more. An account with a
// second factor is asked for its code.
func TestShopperGoesOnAfterTheShopsLogin(t *testing.T) {
	t.Parallel()
	first := browser(t)
	issuer := oidctest.New(t)
	in := shop.Serve(t, pgtest.DatabaseURL(t), pgtest.RedisURL(t), "--oidc-issuer="+issuer.URL, "--oidc-audience="+oidctest.Audience,
		"--login-url="+strings.Replace(issuer.URL, "127.0.0.1", "localhost", 1)+"/login", "--human-check-strength=low")
	opensItem := func(a askingSale) chromedp.Action {
		return chromedp.Navigate(in.URL + "/?item=" + planAsked(t, in, a))
	}
	logsIn := func(user string) chromedp.Action {
		return chromedp.Tasks{until(`location.pathname === "/login" && document.forms[0]?.user`), fill("[name=user]", user), click("form button")}
	}
	card := func(member, value string) chromedp.Action {
		return until(`document.querySelector("sale-card")?.dataset.` + member + ` === ` + strconv.Quote(value))
	}

	do(first, t, "reserve", opensItem(askingSale{human: "pow", reserve: true, opensIn: 2 * time.Minute}), click("#buy"), logsIn("u-reserves"), card("reserved", "true"), says("Reserved."))

	second := visitor(first, t)
	do(second, t, "arm two", opensItem(askingSale{human: "none", opensIn: 30 * time.Second, limit: 2}), click(`.quantity [aria-label="Increase quantity"]`), click("#arm"), logsIn("u-arms"),
		card("armed", "true"), until(`document.querySelector(".quantity output").textContent === "2"`))

	third := visitor(first, t)
	var sent int
	var login struct{ Access, Refresh string }
	do(third, t, "press buy, and find the button ready", opensItem(askingSale{human: "none"}), click("#buy"), logsIn("u-buys"), until(`document.activeElement.id === "buy" && document.activeElement.textContent === "Buy now"`),
		chromedp.Evaluate(requests("/rush"), &sent), chromedp.Evaluate(`JSON.parse(localStorage.getItem("stampede-login"))`, &login))
	require.Equal(t, "requests for a path and a rush that nobody pressed for", sent, 0)
	secret, _ := in.Do(t, http.MethodPost, "/api/v1/me/totp", login.Access, map[string]string{"refresh_token": login.Refresh}, http.StatusCreated)["secret"].(string)
	code := func(at time.Time) string {
		digits, err := totp.GenerateCode(secret, at)
		require.NoError(t, err)
		return digits
	}
	in.Do(t, http.MethodPost, "/api/v1/me/totp/confirm", login.Access, map[string]string{"code": code(time.Now())}, http.StatusOK)
	do(third, t, "log out, and be asked for a code after the next login", click("login-box button"), until(`document.querySelector("login-box").textContent === "Log in"`),
		click("#buy"), click("#elsewhere"), logsIn("u-buys"), until(`document.activeElement.name === "totp"`))
	readable(third, t, "login-totp-elsewhere")
	do(third, t, "give a wrong one, then the right one", enter("totp", "000000"), click("dialog .end button"), until(`document.querySelector("[name=totp][aria-invalid]")`),
		enter("totp", code(time.Now().Add(30*time.Second))), click("dialog .end button"), until(`document.querySelector("login-box a") && !document.querySelector("dialog")`))

	do(second, t, "be ordered at the opening", ordered("pending_payment"), until(`document.querySelector(".quantity output").textContent === "2"`))
}
