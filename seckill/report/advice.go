package report

import (
	"fmt"
	"time"

	"stampede/platform/watch/proof/runs"
)

// Advice is one thing to do, in both languages.
type Advice struct {
	Code string `json:"code"`
	En   string `json:"en"`
	Zh   string `json:"zh"`
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
	add := func(code, en, zh string) { list = append(list, Advice{code, en, zh}) }
	var difference, left, units int64
	quick := false
	for _, i := range r.Items {
		difference += max(i.Difference, -i.Difference)
		units += i.Units
		if !i.Unlimited && i.EmptiedAt == nil {
			left += max(0, i.Units-i.Sold-i.Held)
		}
		quick = quick || i.SecondsToEmpty != nil && *i.SecondsToEmpty < soon.Seconds()
	}
	o := r.Orders
	if difference != 0 {
		add("books-differ", fmt.Sprintf("%d units are not accounted for: prove the books (POST /api/v1/admin/proof), then `stampede reconcile`.", difference),
			fmt.Sprintf("有 %d 件对不上账：先核验账目（POST /api/v1/admin/proof），再执行 `stampede reconcile`。", difference))
	}
	switch {
	case r.MadeAt.Before(r.ClosesAt):
		add("not-over", "The session was still open when this report was made: make it again once the last payment window is over.", "生成报告时场次尚未结束：请在最后的付款时限过后重新生成。")
	case r.Proof == nil || r.Proof.EndedAt < r.ClosesAt.UTC().Format(time.RFC3339):
		add("not-proved", "The books were not proved after the session: POST /api/v1/admin/proof, then make the report again.", "场次结束后尚未核验账目：请先 POST /api/v1/admin/proof，再重新生成报告。")
	case r.Proof.Status != runs.StatusProved:
		add("proof-"+r.Proof.Status, "The latest proof of the books did not pass: read it with GET /api/v1/admin/proof/"+r.Proof.ID+".", "最近一次账目核验未通过：请查看 GET /api/v1/admin/proof/"+r.Proof.ID+"。")
	}
	if hot := r.Funnel["answers"]["too-hot"]; left > 0 && share(hot, o.Attempts) > muchTooHot { // of a sale that sold out, it cost no unit
		add("lane-too-small", fmt.Sprintf("%.0f %% of the attempts got too-hot: raise --lane-capacity, add an instance, or give the order writer more room.", 100*share(hot, o.Attempts)),
			fmt.Sprintf("%.0f%% 的请求因“太火爆”未被受理：请调大 --lane-capacity、增加实例，或给订单写入更多资源。", 100*share(hot, o.Attempts)))
	}
	if rate := r.Funnel["answers"]["admission-rate"]; share(rate, o.Attempts) > muchTooHot {
		add("rate-too-low", fmt.Sprintf("%.0f %% of the attempts were refused by the admission rate that an operator set.", 100*share(rate, o.Attempts)),
			fmt.Sprintf("%.0f%% 的请求被运营设置的放行速率拒绝。", 100*share(rate, o.Attempts)))
	}
	if timeouts := r.Funnel["orders"]["closed-timeout"]; share(timeouts, o.Created) > muchUnpaid {
		add("many-unpaid", fmt.Sprintf("%.0f %% of the orders were never paid: hoarders, or too short a payment window. Require reservations or a human check, and keep the pause after unpaid orders on.", 100*share(timeouts, o.Created)),
			fmt.Sprintf("%.0f%% 的订单超时未付：可能有人囤单，或付款时间太短。请启用预约或人机验证，并保留未付订单后的冷却时间。", 100*share(timeouts, o.Created)))
	}
	if late := r.Funnel["payments"]["late"]; late > 0 {
		add("window-too-short", fmt.Sprintf("%d payments arrived after their order was closed and went back: lengthen the payment window, or hold units as backup.", late),
			fmt.Sprintf("有 %d 笔付款在订单关闭后到账并已退回：请延长付款时间，或预留备用库存。", late))
	}
	if quick && units > 0 && o.Attempts > crowded*units {
		add("far-more-shoppers-than-units", fmt.Sprintf("%d attempts for %d units: a reservation with a cap tells most shoppers beforehand.", o.Attempts, units),
			fmt.Sprintf("%d 次请求争抢 %d 件：设置带上限的预约，可提前告知大多数顾客。", o.Attempts, units))
	}
	if left > 0 && r.MadeAt.After(r.ClosesAt) {
		add("stock-left", fmt.Sprintf("%d units were left at the end: sell them in another session.", left), fmt.Sprintf("结束时还剩 %d 件：可安排在其他场次出售。", left))
	}
	return list
}

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
