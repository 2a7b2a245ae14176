package browser

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/redis/go-redis/v9"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// askingSale is a sale with requirements before it issues paths.
type askingSale struct {
	human   string        // the kind of the human check
	opensIn time.Duration // with reserve, reservations are open until then
	reserve bool
	stock   int // 0 is 20
	limit   int // 0 is 1
	// checkout is what is settled between an order and its payment; may be nil.
	checkout map[string]any
	// refundHours is for how long its shopper may return an order; 0 is never.
	refundHours int
	// points are what it earns for each 100 fen.
	points int
	image  string
}

// planAsked publishes a sale with one item and returns the item's id.
func planAsked(t *testing.T, in *shop.Instance, a askingSale) string {
	t.Helper()
	type object = map[string]any
	now := time.Now()
	opens, closes := now.Add(a.opensIn), now.Add(10*time.Minute)
	session := object{"name": "door", "opens_at": opens, "closes_at": closes, "items": []object{{
		"sku": "phone", "title": "Phone", "image_url": a.image, "stock": cmp.Or(a.stock, 20),
		"list_price": object{"amount": 599900, "currency": "CNY"}, "sale_price": object{"amount": 9900, "currency": "CNY"},
	}}}
	if a.reserve {
		session["reservation_opens_at"], session["reservation_closes_at"] = now, opens
	}
	activity := object{"name": "Door", "starts_at": now, "ends_at": closes, "human_check": a.human, "limit_per_user": cmp.Or(a.limit, 1), "refund_within_hours": a.refundHours, "points_rate": a.points, "sessions": []object{session}}
	if a.checkout != nil {
		activity["checkout"] = a.checkout
	}
	item := in.Publish(t, activity)
	if !a.reserve { // otherwise it is loaded while shoppers reserve
		in.AwaitLoaded(t, item)
	}
	return item
}

// itemPage opens an item's page as a logged-in user, with a token such as the
// shop's other systems mint.
func itemPage(t *testing.T, in *shop.Instance, item string, user int64) chromedp.Action {
	t.Helper()
	login := fmt.Sprintf(`{"access":%q,"refresh":"none","until":%d,"user":"%d"}`, shop.Mint(t, user, auth.Shopper), time.Now().Add(time.Hour).UnixMilli(), user)
	return chromedp.Tasks{
		chromedp.Navigate(in.URL + "/static/style.css"), // anything of the same origin
		chromedp.Evaluate(`localStorage.setItem("stampede-login", `+strconv.Quote(login)+`)`, nil),
		chromedp.Navigate(in.URL + "/?item=" + item),
	}
}

// TestPageGoesThroughTheDoor tests a reservation with a proof of work, and a
// slide that is wrong at first, and a delivery whose freight is paid too.
func TestPageGoesThroughTheDoor(t *testing.T) {
	t.Parallel()
	redisURL := pgtest.RedisURL(t)
	first := browser(t)
	in := shop.Serve(t, pgtest.DatabaseURL(t), redisURL, "--human-check-strength=low", "--challenges-per-minute=0", "--units-return-within=0s")
	do(first, t, "find no login by SMS where nothing sends it", chromedp.Navigate(in.URL+"/"), click("login-box button"), until(`document.querySelector("dialog .tabs").textContent === "PasswordQR code" && !document.querySelector("#forgot")`))
	second := visitor(first, t)
	do(second, t, "open a window", chromedp.Navigate("about:blank"))
	puzzle := planAsked(t, in, askingSale{human: "slide"})
	ops := in.OpsURL(t)
	pgtest.Eventually(t, time.Minute, func() bool { // otherwise a busy machine has none for the second attempt
		drawn := shop.Scrape(t, ops)["stampede_human_pictures"].GetMetric()
		return len(drawn) == 1 && drawn[0].GetGauge().GetValue() >= 3
	}, "slides to be drawn")
	lookColdly(second, t, in, puzzle)
	var hint string
	do(second, t, "look at it between its reservations and its opening", chromedp.Evaluate(reservationsClosed, &hint))
	require.Equal(t, "hint", hint, "Log in before the sale starts so you do not miss it.")
	checkLosers := loseNothing(t, in, func() context.Context { return visitor(first, t) })
	settlesAnOrder(visitor(first, t), t, in)
	buysByKeyboard(visitor(first, t), t, in)
	// Enough time to reserve and to be counted, also on a busy machine; the other visitor solves the slide meanwhile.
	reserved := planAsked(t, in, askingSale{human: "pow", reserve: true, opensIn: 40 * time.Second, checkout: map[string]any{
		"ways": []string{"delivery", "pickup"}, "address": "required", "note": "optional", "freight": map[string]any{"amount": 800, "currency": "CNY"},
	}})

	do(first, t, "reserve, work, wait for the opening",
		itemPage(t, in, reserved, 7), missesScript("pow.js", "#buy", "We cannot reach the server"), until(`document.querySelector("sale-card").dataset.reserved === "true"`),
		click("#arm"), until(`document.querySelector("sale-card").dataset.armed === "true"`))

	do(first, t, "be counted", until(`document.querySelector("#taken").textContent === "1 reserved"`))
	readable(first, t, "armed")
	rdb := pgtest.RedisAt(t, redisURL)
	do(second, t, "get the slide", itemPage(t, in, puzzle, 9), click("#buy"), until(`document.querySelector("dialog.slide")`))
	readable(second, t, "slide")
	// Its sale is open: the shopper must not believe to be in line.
	do(second, t, "be told not to be in line", until(`document.querySelector("dialog.slide [role=alert]").textContent.includes("not in line yet") && document.title.includes("not in line yet") &&
		document.querySelector("#buy").textContent === "Not in line yet …"`))
	do(second, t, "fail the slide", slideTo(tileAnswer(t, rdb)-50),
		until(`document.querySelector("#said").textContent.includes("human check failed") && document.querySelector("dialog.slide")`))
	do(second, t, "solve the slide", slideTo(tileAnswer(t, rdb)), ordered("pending_payment"))

	checkLosers()
	do(second, t, "see what is left", itemPage(t, in, puzzle, 10),
		until(`document.querySelector("#left")?.textContent === "19 of 20 left" && document.querySelector("#buy:not([disabled])")`))
	_, item := in.Call(t, http.MethodGet, "/api/v1/items/"+puzzle, "", nil)
	activity, _ := item["activity_id"].(string)
	in.Do(t, http.MethodPost, "/api/v1/admin/activities/"+activity+"/pause", shop.Mint(t, 1, auth.Operator), nil, http.StatusOK)
	do(second, t, "see it paused", until(`document.querySelector("#buy[disabled]")?.textContent === "Paused"`))
	readable(second, t, "paused")

	do(first, t, "buy, say where to, and pay with the freight", ordered("pending_payment"), until(`document.querySelector(".facts").textContent.includes("Shipping ¥8.00")`), click("#buy"),
		enter("address", "1 Nanjing Road"), until(`document.querySelector(".sheet dl").textContent === "Subtotal¥99.00Shipping¥8.00Payment methodSandbox bankTotal¥107.00"`),
		until(`document.querySelector("#pay").textContent === "Pay ¥107.00"`), click("#pay"), until(`document.querySelector('main[data-state="open"] .money')?.textContent.includes("107.00")`),
		itemPage(t, in, reserved, 7), until(`document.querySelector("#sum")?.textContent === "¥99.00 + Shipping ¥8.00 = ¥107.00"`))
	// The first browser has never seen this order; it can only learn of it from
	// the server.
	do(first, t, "find an order that was made elsewhere", itemPage(t, in, puzzle, 9), ordered("pending_payment"))
	do(second, t, "come without a reservation", itemPage(t, in, reserved, 8),
		until(`document.querySelector("#said")?.textContent.includes("Only shoppers with a reservation") && document.querySelector("#buy").disabled`))
}

// reservationsClosed shows the page's item as it is between its reservations and its opening.
const reservationsClosed = `(() => {
	const card = document.querySelector("sale-card"), at = (minutes) => new Date(Date.now() + 60_000 * minutes).toISOString()
	card.show({ ...card.shown, status: "upcoming", reservation_opens_at: at(-2), reservation_closes_at: at(-1), opens_at: at(1) })
	return document.querySelector("#said").textContent
})()`

// deep is where an element's parts are, on a page with one; else the document.
const deep = `(document.querySelector("stampede-buy")?.shadowRoot ?? document)`

// slideTo drags the tile's left edge, slowly at first, and submits the position.
func slideTo(x int) chromedp.Action {
	return chromedp.Evaluate(`(async () => {
		const root = `+deep+`, s = root.querySelector("dialog.slide input");
		for (let i = 1; i <= 10; i++) {
			await new Promise((next) => setTimeout(next, 50));
			s.value = Math.round(`+strconv.Itoa(x)+` * i * i / 100);
			s.dispatchEvent(new Event("input"));
		}
		root.querySelector('dialog.slide button[value="ok"]').click();
	})()`, nil, awaitPromise)
}

// tileAnswer returns the correct position for the only open slide, as stored by
// the server.
func tileAnswer(t *testing.T, rdb *redis.Client) int {
	t.Helper()
	var x int
	pgtest.Eventually(t, 30*time.Second, func() bool {
		keys, err := rdb.Keys(t.Context(), "human:slide:*").Result()
		if err != nil || len(keys) != 1 {
			return false
		}
		x, err = rdb.Get(t.Context(), keys[0]).Int()
		return err == nil
	}, "one slide is out")
	return x
}
