// Package report renders what a session was: how many tried, what they were told,
// who paid, what went wrong, whether the books agree, and what to do better. It only
// computes; package funnel reads the figures.
package report

import (
	"fmt"
	"time"

	"stampede/platform/watch/alarm"
	"stampede/platform/watch/proof/runs"
	"stampede/platform/watch/tally"
	"stampede/seckill/internal/wire"
)

// Report is a session's, as JSON and as a page.
type Report struct {
	SessionID wire.ID         `json:"session_id"`
	Activity  string          `json:"activity" doc:"The name of the activity"`
	Name      string          `json:"name"`
	OpensAt   time.Time       `json:"opens_at"`
	ClosesAt  time.Time       `json:"closes_at"`
	MadeAt    time.Time       `json:"made_at" doc:"A report made before the last order is settled is a state, not the end"`
	Items     []ItemOutcome   `json:"items"`
	Funnel    tally.Counts    `json:"funnel" doc:"All items together, by stage and code, as in the funnel"`
	Orders    OrderOutcomes   `json:"orders"`
	Latency   []LatencyBounds `json:"latency" doc:"Only what was measured"`
	Step      int             `json:"step" doc:"Seconds per point of the curve"`
	Curve     []CurveStep     `json:"curve"`
	Alarms    []SessionAlarm  `json:"alarms" doc:"Those that occurred from an hour before the opening until the last order's payment window, the newest first; at most 100"`
	Proof     *LatestProof    `json:"proof,omitempty" doc:"The latest proof of the books; absent before the first"`
	Advice    []Advice        `json:"advice" doc:"What to do better next time"`
}

// ItemOutcome is one item's share.
type ItemOutcome struct {
	ID             wire.ID      `json:"id"`
	Title          string       `json:"title"`
	Units          int64        `json:"units" doc:"On sale; 0 when unlimited"`
	Unlimited      bool         `json:"unlimited"`
	GrantedAt      *time.Time   `json:"granted_at,omitempty" doc:"The first unit was granted"`
	EmptiedAt      *time.Time   `json:"emptied_at,omitempty" doc:"The last free unit was granted for the first time"`
	SecondsToEmpty *float64     `json:"seconds_to_empty,omitempty" doc:"From the opening until then"`
	Sold           int64        `json:"sold" doc:"Units of paid orders"`
	Held           int64        `json:"held" doc:"Units of orders that may still be paid"`
	Left           int64        `json:"left" doc:"Units that no order holds, with the backup"`
	WrittenOff     int64        `json:"written_off" doc:"Units that count as on sale and are never sold"`
	Difference     int64        `json:"difference" doc:"0 when every unit is accounted for"`
	Counts         tally.Counts `json:"counts"`
}

// OrderOutcomes are the ends of the session's orders.
type OrderOutcomes struct {
	Attempts  int64 `json:"attempts" doc:"Rushes answered"`
	Refused   int64 `json:"refused" doc:"Rushes that got neither a place in line nor the number of an order"`
	Created   int64 `json:"created"`
	Paid      int64 `json:"paid" doc:"With those paid late from the backup"`
	Unpaid    int64 `json:"unpaid" doc:"Closed without a payment: in time, by the shopper or by an operator"`
	Refunds   int64 `json:"refunds" doc:"Refunds that succeeded"`
	Returned  int64 `json:"returned_units" doc:"Units of orders that were closed unpaid"`
	SoldAgain int64 `json:"sold_again_units" doc:"Of these, those that another order got, at most: units taken off the sale count too"`
}

// LatencyBounds is a percentile pair of something that was measured, as upper bounds.
type LatencyBounds struct {
	What  string `json:"what" enum:"wait,visible" doc:"wait: from entering the line to the answer, which most refusals need not wait for; visible: from the grant until the order could be read"`
	Count int64  `json:"count" doc:"How many were measured"`
	P50   int64  `json:"p50_ms"`
	P99   int64  `json:"p99_ms"`
}

// CurveStep is a step of the curve.
type CurveStep struct {
	At      time.Time `json:"at"`
	Granted int64     `json:"granted"`
	Refused int64     `json:"refused"`
	Created int64     `json:"created"`
	Paid    int64     `json:"paid"`
	Unpaid  int64     `json:"unpaid"`
}

// SessionAlarm is an alarm that occurred in the time of the session.
type SessionAlarm struct {
	Code       alarm.Code     `json:"code"`
	Subject    string         `json:"subject"`
	Severity   alarm.Severity `json:"severity" enum:"warning,critical,info"`
	Detail     string         `json:"detail"`
	NextAction string         `json:"next_action"`
	OpenedAt   time.Time      `json:"opened_at"`
	LastSeen   time.Time      `json:"last_seen_at"`
	Incident   int            `json:"incident"`
}

// LatestProof is the latest proof of the books.
type LatestProof struct {
	ID      string `json:"id"`
	Status  string `json:"status" enum:"proved,violated,failed"`
	EndedAt string `json:"ended_at" format:"date-time"`
	SHA256  string `json:"sha256" doc:"Of what GET /api/v1/admin/proof/{id} answers as document"`
}

// Finish computes what follows from the figures: the ends of orders, latencies and
// the advice.
func (r *Report) Finish() {
	orders, units := r.Funnel["orders"], r.Funnel["units"]
	r.Orders = OrderOutcomes{
		Attempts: r.Funnel.Sum("answers"), Refused: refused(r.Funnel), Created: orders["created"], Paid: orders["paid"] + orders["retaken"],
		Unpaid: closed(orders), Refunds: r.Funnel["refunds"]["succeeded"], Returned: closed(units),
	}
	for _, i := range r.Items {
		if of := i.Counts["units"]; !i.Unlimited {
			r.Orders.SoldAgain += min(closed(of), max(0, of["created"]-i.Units))
		}
	}
	r.Latency = []LatencyBounds{}
	for _, l := range [][2]string{{"wait", "waits"}, {"visible", "visible"}} {
		p50, ok := tally.Percentile(r.Funnel[l[1]], .5)
		if p99, _ := tally.Percentile(r.Funnel[l[1]], .99); ok {
			r.Latency = append(r.Latency, LatencyBounds{l[0], r.Funnel.Sum(l[1]), p50.Milliseconds(), p99.Milliseconds()})
		}
	}
	r.Advice = advise(r)
}

// refused is the number of rushes that got neither a place in line nor an order's
// number.
func refused(c tally.Counts) int64 {
	return c.Sum("answers") - c["answers"]["queued"] - c["answers"]["repeated"] - c["answers"]["already-bought"]
}

// closed is what was closed without a payment, by time, by its shopper or by an operator.
func closed(codes map[string]int64) int64 {
	return codes["closed-timeout"] + codes["closed-canceled"] + codes["closed-withdrawn"]
}

// StepOf is a step of a funnel's curve.
func StepOf(p tally.Point) CurveStep {
	orders := p.Counts["orders"]
	return CurveStep{
		At: p.At, Granted: p.Counts["answers"]["queued"], Refused: refused(p.Counts), Created: orders["created"],
		Paid: orders["paid"] + orders["retaken"], Unpaid: closed(orders),
	}
}

// StepFor is the finest step, in seconds, with which a curve of a time span has at
// most 600 points.
func StepFor(span time.Duration) int {
	for _, step := range []int{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800} {
		if span <= 600*time.Duration(step)*time.Second {
			return step
		}
	}
	return 3600
}

// Advice is one thing to do, in both languages.
type Advice struct {
	Code string `json:"code" example:"books-differ"`
	En   string `json:"en" example:"2 units are not accounted for: prove the books."`
	Zh   string `json:"zh" example:"有 2 件对不上账，请先核验账目。"`
}

// The shares above which something is worth changing: a fifth of the shoppers, or of
// the orders, is more than chance and fewer than the sale was about.
const (
	muchTooHot = 0.2
	muchUnpaid = 0.2
	// crowded is the number of attempts for a unit above which most shoppers came for
	// nothing, and soon the time in which a sale is over before they notice.
	crowded = 100
	soon    = 10 * time.Second
)

// advise says what to do better, the most urgent first.
func advise(r *Report) []Advice {
	list := []Advice{}
	add := func(code, en, zh string, figures ...any) {
		list = append(list, Advice{code, fmt.Sprintf(en, figures...), fmt.Sprintf(zh, figures...)})
	}
	var difference, left, units int64
	quick := false
	for _, i := range r.Items {
		difference += max(i.Difference, -i.Difference)
		units += i.Units
		if !i.Unlimited && i.EmptiedAt == nil {
			left += max(0, i.Units-i.Sold-i.Held-i.WrittenOff)
		}
		quick = quick || i.SecondsToEmpty != nil && *i.SecondsToEmpty < soon.Seconds()
	}
	o := r.Orders
	if difference != 0 {
		add("books-differ", "%d units are not accounted for: prove the books (POST /api/v1/admin/proof), then `stampede reconcile`.",
			"有 %d 件对不上账：先核验账目（POST /api/v1/admin/proof），再执行 `stampede reconcile`。", difference)
	}
	switch {
	case r.MadeAt.Before(r.ClosesAt):
		add("not-over", "The session was still open when this report was made: make it again once the last payment window is over.",
			"生成报告时场次尚未结束：请在最后的付款时限过后重新生成。")
	case r.Proof == nil || r.Proof.EndedAt < r.ClosesAt.UTC().Format(time.RFC3339):
		add("not-proved", "The books were not proved after the session: POST /api/v1/admin/proof, then make the report again.",
			"场次结束后尚未核验账目：请先 POST /api/v1/admin/proof，再重新生成报告。")
	case r.Proof.Status != runs.StatusProved:
		add("proof-"+r.Proof.Status, "The latest proof of the books did not pass: read it with GET /api/v1/admin/proof/%s.",
			"最近一次账目核验未通过：请查看 GET /api/v1/admin/proof/%s。", r.Proof.ID)
	}
	if hot := r.Funnel["answers"]["too-hot"]; left > 0 && share(hot, o.Attempts) > muchTooHot { // of a sale that sold out, it cost no unit
		add("lane-too-small", "%.0f %% of the attempts got too-hot: raise --lane-capacity, add an instance, or give the order writer more room.",
			"%.0f%% 的请求因“太火爆”未被受理：请调大 --lane-capacity、增加实例，或给订单写入更多资源。", 100*share(hot, o.Attempts))
	}
	if waits := r.Funnel["answers"]["wait-your-turn"]; left > 0 && share(waits, o.Attempts) > muchTooHot { // as above
		add("rate-too-low", "%.0f %% of the answers asked shoppers to wait for their turn, and units were left: set a higher admission rate.",
			"%.0f%% 的答复是请顾客排队等待放行，而商品仍有剩余：请调高放行速率。", 100*share(waits, o.Attempts))
	}
	if timeouts := r.Funnel["orders"]["closed-timeout"]; share(timeouts, o.Created) > muchUnpaid {
		add("many-unpaid", "%.0f %% of the orders were never paid: hoarders, or too short a payment window. "+
			"Require reservations or a human check, and keep the pause after unpaid orders on.",
			"%.0f%% 的订单超时未付：可能有人囤单，或付款时间太短。请启用预约或人机验证，并保留未付订单后的冷却时间。", 100*share(timeouts, o.Created))
	}
	if late := r.Funnel["payments"]["late"]; late > 0 {
		add("window-too-short", "%d payments arrived after their order was closed and went back: lengthen the payment window, or hold units as backup.",
			"有 %d 笔付款在订单关闭后到账并已退回：请延长付款时间，或预留备用库存。", late)
	}
	if quick && units > 0 && o.Attempts > crowded*units {
		add("far-more-shoppers-than-units", "%d attempts for %d units: a reservation with a cap tells most shoppers beforehand.",
			"%d 次请求争抢 %d 件：设置带上限的预约，可提前告知大多数顾客。", o.Attempts, units)
	}
	if left > 0 && r.MadeAt.After(r.ClosesAt) {
		add("stock-left", "%d units were left at the end: sell them in another session.", "结束时还剩 %d 件：可安排在其他场次出售。", left)
	}
	return list
}

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
