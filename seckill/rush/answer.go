package rush

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
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
	outAdmissionRate // too-hot as well, by the rate that an operator set
	outRateLimited
	outCoolingDown
	outFenced
	outPaused
	outUnavailable
	outDraining
	outUnknown
	outcomes // number of outcomes
)

// String is the code, as in answers, metrics and the funnel. Only metrics and
// the funnel distinguish refusals by the operator's own rate.
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
	case outAdmissionRate:
		return "admission-rate"
	default:
		return refusals[o].Code
	}
}

// unitsBack is when to try again for units that others hold. They come back one
// by one over minutes, as shoppers cancel or let their payment windows pass;
// 100,000 shoppers who wait for them are then 20,000 requests a second, which
// the sold-out flag answers from memory.
const unitsBack = 5 * time.Second

// errTooHot refuses an attempt that was not taken, for one of two limits.
var errTooHot = fault.New(fault.TooMany, "too-hot", fault.Titles{"Too many shoppers at once; try again in a moment", "太火爆了，请稍后再试"},
	"This attempt was not taken; the same path may be sent again.").After(time.Second)

// refusals are the answers other than 202. None is wrong for a shopper who may
// hold a unit: each that such a shopper can get says where to query the order.
var refusals = [outcomes]*fault.Error{
	outAlreadyBought: fault.New(fault.Conflict, "already-bought", fault.Titles{"You already have, or had, an order in this sale", "您已参与过本次抢购"},
		"You hold or have held units of this item, or of this activity, under the number in order_no."),
	outSoldOut: fault.New(fault.Gone, "sold-out", fault.Titles{"Sold out", "已售罄"}, "Every unit is paid for."),
	outAllHeld: fault.New(fault.Conflict, "all-held", fault.Titles{"All units are held; some may come back", "已被抢光，未付款的商品可能会释放"},
		"Every unit is held, some not paid yet; the same path may be sent again.").After(unitsBack),
	outNotEnough: fault.New(fault.Conflict, "not-enough", fault.Titles{"Fewer units are left than you asked for", "剩余数量不足"},
		"Request a path with a smaller quantity, or send the same path again: units may come back.").After(unitsBack),
	outOverLimit: fault.New(fault.Invalid, "over-limit", fault.Titles{"More units than one shopper may buy", "超过每人限购数量"},
		"Request a path with a smaller quantity."),
	outNotStarted: fault.New(fault.TooEarly, "not-started", fault.Titles{"The sale has not started", "抢购尚未开始"},
		"Send the same path again at usable_from."),
	outEnded: fault.New(fault.Gone, "ended", fault.Titles{"The sale has ended", "抢购已结束"},
		"No more units are granted. If you rushed before, query your order by its number."),
	outBadPath: fault.New(fault.Forbidden, "bad-path", fault.Titles{"This rush link is not valid", "抢购链接无效"},
		"Request a new path and send it unchanged."),
	outPathExpired: fault.New(fault.Forbidden, "path-expired", fault.Titles{"This rush link has expired", "抢购链接已过期"},
		"Request a new path. If you rushed before, query your order by its number."),
	outTooLarge:      fault.Plain(fault.TooLarge, "A rush has no body; the path contains everything."),
	outTooHot:        errTooHot,
	outAdmissionRate: errTooHot,
	outRateLimited: fault.New(fault.TooMany, "rate-limited", fault.Titles{"You are asking too often", "操作太频繁，请稍后再试"},
		"You are sending rushes too fast; the same path may be sent again.").After(time.Second),
	outCoolingDown: fault.New(fault.TooMany, "cooling-down", fault.Titles{"Your last order was closed unpaid. Please wait", "您有订单未付款已关闭，请稍后再试"},
		"An order of yours in this activity was closed unpaid, so your next attempt has to wait. "+
			"If you rushed with this path before, query your order by its number."),
	outFenced: fault.New(fault.Unavailable, "fenced", fault.Titles{"The item is being prepared", "商品准备中，请稍后再试"},
		"The item is being loaded; the same path may be sent again.").After(time.Second),
	outPaused: fault.New(fault.Unavailable, "paused", fault.Titles{"The sale is paused", "抢购已暂停"},
		"The shop has paused this sale; the same path may be sent again.").After(2 * time.Second),
	outUnavailable: fault.Plain(fault.Unavailable,
		"Grants cannot be stored right now, so this attempt was not taken; the same path may be sent again.").After(2 * time.Second),
	outDraining: fault.New(fault.Unavailable, "draining", fault.Titles{"The server is restarting", "服务正在重启，请稍后再试"},
		"This attempt was not taken; the same path may be sent again.").After(time.Second),
	outUnknown: fault.New(fault.Unavailable, "unknown", fault.Titles{"The outcome is not known yet", "结果确认中，请查询订单"},
		"Query your order by its number; the result is available within seconds.").After(time.Second),
}

// rendered is a refusal rendered in advance in every language, so that the
// answer to most requests of a sale costs little work.
type rendered struct {
	status int
	body   [2][]byte // by httpx.Language; without the request's id
	retry  []string  // Retry-After; nil says nothing
}

var (
	ready       = renderRefusals()
	numerals    = renderNumerals()
	problemType = []string{httpx.ProblemContentType}
	jsonType    = []string{"application/json"}
)

func renderRefusals() (all [outcomes]rendered) {
	for o, f := range refusals {
		if f == nil {
			continue
		}
		r := rendered{status: httpx.StatusOf(f.Kind)}
		for _, lang := range []httpx.Language{httpx.English, httpx.Chinese} {
			r.body[lang] = renderProblem(f, lang)
		}
		if f.RetryAfter > 0 {
			r.retry = []string{strconv.Itoa(wholeSeconds(f.RetryAfter))}
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

// maxNumeral is the highest header value that is rendered in advance: the
// length of an answer with a number in it, and the ten minutes in seconds,
// which is the longest lead of a path.
const maxNumeral = 1023

func renderNumerals() (all [maxNumeral + 1][]string) {
	for n := range all {
		all[n] = []string{strconv.Itoa(n)}
	}
	return all
}

// wholeSeconds rounds up: a client that retries too early would only be refused
// again.
func wholeSeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// refuse writes a refusal. wait replaces the refusal's own Retry-After if it is
// above 0. It allocates nothing itself; the header map belongs to net/http.
func refuse(w http.ResponseWriter, req *http.Request, lang httpx.Language, o outcome, wait time.Duration) {
	r := &ready[o]
	h := w.Header()
	switch {
	case wait > 0:
		h["Retry-After"] = numerals[min(wholeSeconds(wait), maxNumeral)]
	case r.retry != nil:
		h["Retry-After"] = r.retry
	}
	id := httpx.SetRequestID(w, req)
	writeBody(w, r.status, problemType, func(b []byte) []byte { return append(appendRequestID(b, id), r.body[lang][1:]...) })
}

// appendRequestID begins a problem with its request's id.
func appendRequestID(b []byte, id string) []byte {
	b = append(b, `{"request_id":`...)
	return append(strconv.AppendQuote(b, id), ',') // of printable ASCII, so it is JSON too
}

// bodies pools buffers for the answers that contain a number.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func writeBody(w http.ResponseWriter, status int, contentType []string, fill func(b []byte) []byte) {
	buf := bodies.Get().(*bytes.Buffer) //nolint:errcheck // the pool holds nothing else
	defer bodies.Put(buf)
	buf.Reset()
	buf.Write(fill(buf.AvailableBuffer()))
	h := w.Header()
	h["Content-Type"] = contentType
	if buf.Len() <= maxNumeral { // otherwise net/http sets it
		h["Content-Length"] = numerals[buf.Len()]
	}
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // the client may be gone; no reader is left for an error
}

// writeAlreadyBought refuses with the number under which the user holds units.
func writeAlreadyBought(w http.ResponseWriter, req *http.Request, lang httpx.Language, other ids.ID) {
	r, id := &ready[outAlreadyBought], httpx.SetRequestID(w, req)
	writeBody(w, r.status, problemType, func(b []byte) []byte {
		b = append(appendRequestID(b, id), `"order_no":"`...)
		b, _ = other.AppendText(b) // never fails
		b = append(b, `",`...)
		return append(b, r.body[lang][1:]...)
	})
}

// Ticket is the body of a 202: the number's place in the line, or its order's
// status.
type Ticket struct {
	OrderNo     string `json:"order_no" doc:"The order number to query; the same as the path's" example:"0199a1b2c3d47e8f90a1b2c3d4e5f607"`
	Status      string `json:"status" doc:"queued, or the order's status once it exists" example:"queued"`
	Position    int64  `json:"position" doc:"Place in line: 1 is the next to be written, 0 is being written; never rises" example:"1200"`
	PollAfterMS int64  `json:"poll_after_ms" doc:"When to poll GET /api/v1/orders/{order_no}, in milliseconds" example:"260"`
}

// statusQueued is a number's status while it has no order row.
const statusQueued = "queued"

// writeTicket answers 202.
func writeTicket(w http.ResponseWriter, no ids.ID, status string, position int64) {
	writeBody(w, http.StatusAccepted, jsonType, func(b []byte) []byte {
		b = append(b, `{"order_no":"`...)
		b, _ = no.AppendText(b) // never fails
		b = append(b, `","status":"`...)
		b = append(b, status...) // fixed strings, nothing to escape
		b = append(b, `","position":`...)
		b = strconv.AppendInt(b, position, 10)
		b = append(b, `,"poll_after_ms":`...)
		b = strconv.AppendInt(b, pollAfter(position).Milliseconds(), 10)
		return append(b, '}', '\n')
	})
}

// pollAfter is when the order at a position is likely to exist: the writer's
// own delay, plus its work on the orders before at 20,000 a second, its minimum
// rate on a small machine. The upper bound keeps a wrong estimate from being
// noticed.
func pollAfter(position int64) time.Duration {
	const (
		soonest  = 200 * time.Millisecond
		latest   = 5 * time.Second
		perGrant = time.Second / 20_000
	)
	return min(soonest+time.Duration(min(position, 1_000_000))*perGrant, latest)
}
