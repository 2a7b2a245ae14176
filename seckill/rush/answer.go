package rush

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"stampede/inventory"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/store/bus"
)

// outcome is the result of one request to rush: the code of its answer, or how
// it ended without one.
type outcome uint8

const (
	outNone          outcome = iota // no answer yet
	outQueued                       // 202: granted now
	outRepeated                     // 202: this number was granted before
	outLeft                         // the client went away while waiting; nothing was taken
	outAlreadyBought                // the first of the refusals
	outSoldOut
	outAllHeld
	outNotEnough
	outOverLimit
	outNotStarted
	outEnded
	outBadPath
	outPathExpired
	outTooLarge
	outTooHot
	outWaitTurn // by the admission rate that an operator set
	outRateLimited
	outCoolingDown
	outFenced
	outPaused
	outUnavailable
	outDraining
	outUnknown
	outcomes // number of outcomes
)

// String is the code, as in answers, metrics and the funnel.
func (o outcome) String() string {
	switch o {
	case outNone:
		return "none"
	case outQueued:
		return "queued"
	case outRepeated:
		return "repeated"
	case outLeft:
		return "left"
	default:
		return refusals[o].Code
	}
}

// unitsBack is when to try again for units that others hold. They come back one
// by one over minutes, as shoppers cancel or let their payment windows pass;
// 100,000 shoppers who wait for them are then 20,000 requests a second, which
// the sold-out flag answers from memory.
const unitsBack = 5 * time.Second

// refusals are the answers other than 202. None is wrong for a shopper who may
// hold a unit: each that such a shopper can get says where to query the order.
var refusals = [outcomes]*fault.Error{
	outAlreadyBought: fault.New(fault.Conflict, "already-bought",
		fault.T("You already have, or had, an order in this sale", "您已参与过本次抢购"),
		fault.T("You hold or have held units of this item, or of this activity, under the number in order_no.",
			"您已用 order_no 中的订单号参与过该商品或该活动。"),
		fault.T("Follow the order in order_no.", "请查看您已有的订单。")),
	outSoldOut: fault.New(fault.Gone, "sold-out", fault.T("Sold out", "已售罄"),
		fault.T("Every unit is paid for.", "每一件都已付款。"),
		fault.T("Look for another session.", "请关注其他场次。")),
	outAllHeld: fault.New(fault.Conflict, "all-held",
		fault.T("All units are held; some may come back", "已被抢光，未付款的商品可能会释放"),
		fault.T("Every unit is held, some not paid yet; the same path may be sent again.", "商品已全部被占用，部分尚未付款；可用原链接重试。"),
		fault.T("Send the same path again: unpaid units come back.", "请用原链接重试，未付款的商品会释放。")).After(unitsBack),
	outNotEnough: fault.New(fault.Conflict, "not-enough", fault.T("Fewer units are left than you asked for", "剩余数量不足"),
		fault.T("Request a path with a smaller quantity, or send the same path again: units may come back.",
			"请减少数量重新获取链接，或用原链接重试：商品可能会释放。"),
		fault.T("Ask for fewer units.", "请减少购买数量。")).After(unitsBack),
	outOverLimit: fault.New(fault.Invalid, "over-limit", fault.T("More units than one shopper may buy", "超过每人限购数量"),
		fault.T("Request a path with a smaller quantity.", "请减少数量重新获取链接。"),
		fault.T("Ask for fewer units.", "请减少购买数量。")),
	outNotStarted: fault.New(fault.TooEarly, "not-started", fault.T("The sale has not started", "抢购尚未开始"),
		fault.T("Send the same path again at usable_from.", "请在 usable_from 时用原链接提交。"),
		fault.T("Try again at the time given; a path that you have stays valid.", "请在所示时间再试；已获取的链接仍然有效。")),
	outEnded: fault.New(fault.Gone, "ended", fault.T("The sale has ended", "抢购已结束"),
		fault.T("No more units are granted. If you rushed before, query your order by its number.",
			"已停止抢购。如果您之前抢购过，请按订单号查询。"),
		fault.T("Look for another session; an order that was granted stays payable.", "请关注其他场次；已抢到的订单仍可付款。")),
	outBadPath: fault.New(fault.Forbidden, "bad-path", fault.T("This rush link is not valid", "抢购链接无效"),
		fault.T("Request a new path and send it unchanged.", "请重新获取链接并原样提交。"),
		fault.T("Request a new path.", "请重新获取抢购链接。")),
	outPathExpired: fault.New(fault.Forbidden, "path-expired", fault.T("This rush link has expired", "抢购链接已过期"),
		fault.T("Request a new path. If you rushed before, query your order by its number.",
			"请重新获取链接。如果您之前抢购过，请按订单号查询。"),
		fault.T("Request a new path.", "请重新获取抢购链接。")),
	outTooLarge: fault.Plain(fault.TooLarge,
		fault.T("A rush has no body; the path contains everything.", "抢购请求没有请求体，链接已包含全部内容。")),
	outTooHot: fault.New(fault.TooMany, "too-hot",
		fault.T("Too many shoppers at once; try again in a moment", "太火爆了，请稍后再试"),
		fault.T("This attempt was not taken; the same path may be sent again.", "本次未受理，可用原链接重试。"),
		fault.T("Send the same path again in a moment.", "请稍后用原链接重试。")).After(time.Second),
	outWaitTurn: fault.New(fault.TooMany, "wait-your-turn",
		fault.T("You are in line and your place is kept", "您正在排队，位置已为您保留"),
		fault.T("Your place is in position, the seconds until your turn in estimated_seconds; without that, the shop lets no one in "+
			"right now. Send the same path again after Retry-After.",
			"position 为您的排队位置，estimated_seconds 为预计等待秒数；没有该项时表示商家暂停放行。请按 Retry-After 用原链接重试。"),
		fault.T("Send the same path again after the seconds in Retry-After; a new path keeps the place too.",
			"请按 Retry-After 给出的秒数用原链接重试；换新链接也会保留位置。")).After(soonAgain),
	outRateLimited: ratelimit.ErrLimited.Saying(
		fault.T("You are sending rushes too fast; the same path may be sent again.", "您的抢购请求过快，可用原链接重试。")).After(time.Second),
	outCoolingDown: fault.New(fault.TooMany, "cooling-down",
		fault.T("Your last order was closed unpaid. Please wait", "您有订单未付款已关闭，请稍后再试"),
		fault.T("An order of yours in this activity was closed unpaid, so your next attempt has to wait. If you "+
			"rushed with this path before, query your order by its number.",
			"您在该活动中有订单未付款已关闭，需等待后才能再抢。如果您之前用此链接抢购过，请按订单号查询。"),
		fault.T("Wait for the seconds in Retry-After.", "请按提示等待后再试。")),
	outFenced: inventory.ErrFenced.Saying(
		fault.T("The item is being loaded; the same path may be sent again.", "商品正在准备，可用原链接重试。")).After(time.Second),
	outPaused: fault.New(fault.Unavailable, "paused", fault.T("The sale is paused", "抢购已暂停"),
		fault.T("The shop has paused this sale; the same path may be sent again.", "商家已暂停抢购，可用原链接重试。"),
		fault.T("Send the same path again when the sale resumes.", "请在活动恢复后用原链接重试。")).After(2 * time.Second),
	outUnavailable: fault.Plain(fault.Unavailable,
		fault.T("Grants cannot be stored right now, so this attempt was not taken; the same path may be sent again.",
			"抢购结果暂时无法保存，本次未受理，可用原链接重试。")).After(2 * time.Second),
	outDraining: fault.New(fault.Unavailable, "draining", fault.T("The server is restarting", "服务正在重启，请稍后再试"),
		fault.T("This attempt was not taken; the same path may be sent again.", "本次未受理，可用原链接重试。"),
		fault.T("Send the same path again in a moment.", "请稍后用原链接重试。")).After(time.Second),
	outUnknown: bus.ErrUnknown.Saying(
		fault.T("Query your order by its number; the result is available within seconds.", "请按订单号查询，几秒内会有结果。")).After(time.Second),
}

// rendered is a refusal rendered in advance in every language, so that the
// answer to most requests of a sale costs little work.
type rendered struct {
	status int
	body   [2][]byte // by httpx.Language; without the request's id
	retry  int       // Retry-After in seconds; 0 says nothing
}

var ready = renderRefusals()

func renderRefusals() (all [outcomes]rendered) {
	for o, f := range refusals {
		if f == nil {
			continue
		}
		r := rendered{status: httpx.StatusOf(f.Kind), retry: wholeSeconds(f.RetryAfter)}
		for _, lang := range []httpx.Language{httpx.English, httpx.Chinese} {
			r.body[lang] = renderProblem(f, lang)
		}
		all[o] = r
	}
	return all
}

func renderProblem(f *fault.Error, lang httpx.Language) []byte {
	p := httpx.NewProblem(f, lang)
	p.Next = "" // the detail says it too, and most requests of a rush end here
	body, err := json.Marshal(p)
	if err != nil {
		panic("seckill: render " + f.Code + ": " + err.Error()) // strings and an int cannot fail to encode
	}
	return append(body, '\n')
}

// wholeSeconds rounds up: a client that retries too early would only be refused
// again.
func wholeSeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// refuse writes a refusal. wait replaces the refusal's own Retry-After if it is
// above 0.
func refuse(into *httpx.DirectAnswer, lang httpx.Language, o outcome, wait time.Duration) {
	r := &ready[o]
	into.Status, into.RetryAfter = r.status, r.retry
	if wait > 0 {
		into.RetryAfter = wholeSeconds(wait)
	}
	beginProblem(into)
	into.Body = append(into.Body, r.body[lang][1:]...)
}

// beginProblem begins a problem with its request's id.
func beginProblem(into *httpx.DirectAnswer) {
	into.Body = append(into.Body, `{"request_id":`...)
	into.Body = append(strconv.AppendQuote(into.Body, into.RequestID), ',') // of printable ASCII, so it is JSON too
}

// writeAlreadyBought refuses with the number under which the user holds units.
func writeAlreadyBought(into *httpx.DirectAnswer, lang httpx.Language, other ids.ID) {
	r := &ready[outAlreadyBought]
	into.Status = r.status
	beginProblem(into)
	into.Body = append(into.Body, `"order_no":"`...)
	into.Body, _ = other.AppendText(into.Body) // never fails
	into.Body = append(into.Body, `",`...)
	into.Body = append(into.Body, r.body[lang][1:]...)
}

// soonAgain is when a shopper in line asks again, while the turn is further away.
const soonAgain = 5 * time.Second

// seldomAgain is well below the time after which turns are forgotten, and what a shopper
// can lose when the rate is raised or removed.
const seldomAgain = 30 * time.Second

// writeTurn refuses with the shopper's place in line. wait is the time until their turn,
// 0 if that is unknown. They come back a second before it, to wait for the rest in
// their request, and before that to see their place: the nearer it is the more often,
// so that all of them together ask ten times as often as turns come at most.
func writeTurn(into *httpx.DirectAnswer, lang httpx.Language, position int64, wait time.Duration) {
	r := &ready[outWaitTurn]
	into.Status, into.RetryAfter = r.status, r.retry
	beginProblem(into)
	into.Body = append(into.Body, `"position":`...)
	into.Body = strconv.AppendInt(into.Body, position, 10)
	if wait > 0 {
		into.RetryAfter = max(1, int(max(min(wait-time.Second, soonAgain), min(wait/4, seldomAgain))/time.Second))
		into.Body = append(into.Body, `,"estimated_seconds":`...)
		into.Body = strconv.AppendInt(into.Body, int64(wholeSeconds(wait)), 10)
	}
	into.Body = append(into.Body, ',')
	into.Body = append(into.Body, r.body[lang][1:]...)
}

// Ticket is the body of a 202: the number's place in the line, or its order's
// status.
type Ticket struct {
	OrderNo     string `json:"order_no" doc:"The order number to query; the same as the path's" example:"0199a1b2c3d47e8f90a1b2c3d4e5f607"`
	Status      string `json:"status" doc:"queued, or the order's status once it exists" example:"queued"`
	Position    int64  `json:"position" doc:"Place in line: 1 is the next to be written, 0 is being written; never rises" example:"1200"`
	PollAfterMS int64  `json:"poll_after_ms" doc:"When to poll GET /api/v1/orders/{order_no}, in milliseconds" example:"260"`
}

// writeTicket answers 202.
func writeTicket(into *httpx.DirectAnswer, no ids.ID, status string, position int64) {
	into.Status = http.StatusAccepted
	into.Body = append(into.Body, `{"order_no":"`...)
	into.Body, _ = no.AppendText(into.Body) // never fails
	into.Body = append(into.Body, `","status":"`...)
	into.Body = append(into.Body, status...) // fixed strings, nothing to escape
	into.Body = append(into.Body, `","position":`...)
	into.Body = strconv.AppendInt(into.Body, position, 10)
	into.Body = append(into.Body, `,"poll_after_ms":`...)
	into.Body = strconv.AppendInt(into.Body, orderevent.PollAfter(position).Milliseconds(), 10)
	into.Body = append(into.Body, '}', '\n')
}

// commonLanguages are the headers that nearly every browser and app sends. They
// are answered from a map, because parsing one costs more than refusing a rush;
// the parser itself fills the map, so the two cannot disagree.
var commonLanguages = languagesOf(
	"", "*",
	"zh", "zh-CN", "zh-cn", "zh-CN,zh", "zh-CN,zh;q=0.9", "zh-CN, zh;q=0.9", "zh-CN,zh-Hans;q=0.9", "zh-CN,zh;q=0.9,en;q=0.8", "zh-CN,en-US;q=0.9",
	"zh-CN,zh;q=0.9,en-US;q=0.8,en;q=0.7", "zh-CN,zh;q=0.9,en;q=0.8,en-GB;q=0.7,en-US;q=0.6",
	"zh-CN,zh;q=0.8,zh-TW;q=0.7,zh-HK;q=0.5,en-US;q=0.3,en;q=0.2", "zh-Hans-CN;q=1", "zh-Hans-CN;q=1, en-CN;q=0.9",
	"en", "en-US", "en-us", "en-GB", "en-US,en", "en-US,en;q=0.9", "en-US, en;q=0.9", "en-US,en;q=0.5", "en-US,en;q=0.8", "en-GB,en;q=0.9",
	"en-GB,en-US;q=0.9,en;q=0.8", "en-US,en;q=0.9,zh-CN;q=0.8,zh;q=0.7", "en,zh-CN;q=0.9,zh;q=0.8",
)

func languagesOf(headers ...string) map[string]httpx.Language {
	m := make(map[string]httpx.Language, len(headers))
	for _, h := range headers {
		m[h] = httpx.LanguageOf(h)
	}
	return m
}

// language picks the language of an answer as every other route does, weights
// included. It allocates nothing for the common headers.
func language(accept string) httpx.Language {
	if lang, common := commonLanguages[accept]; common {
		return lang
	}
	return httpx.LanguageOf(accept)
}
