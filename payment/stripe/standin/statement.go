package standin

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"stampede/payment/provider"
	"stampede/payment/sandbox"
	"stampede/platform/base/ids"
)

// transactions is a page of the balance's movements. A transaction's name says where it
// is: txn_{microseconds}_{the bank's number}.
func (c counter) transactions(r *http.Request, f url.Values) (object, error) {
	from, _ := strconv.ParseInt(f.Get("created[gte]"), 10, 64)
	to, _ := strconv.ParseInt(f.Get("created[lt]"), 10, 64)
	limit, _ := strconv.ParseInt(f.Get("limit"), 10, 32)
	var after sandbox.Mark
	if mark, ok := strings.CutPrefix(f.Get("starting_after"), "txn_"); ok {
		micros, number, _ := strings.Cut(mark, "_")
		at, err := strconv.ParseInt(micros, 10, 64)
		if err != nil {
			return nil, errMissing
		}
		if after.Ref, err = ids.Parse(number); err != nil {
			return nil, errMissing
		}
		after.At = time.UnixMicro(at)
	}
	rows, err := c.desk.Movements(r.Context(), provider.Day{From: time.Unix(from, 0), To: time.Unix(to, 0)}, after, int32(limit)+1) //nolint:gosec // parsed as 32 bits
	if err != nil {
		return nil, err
	}
	list := []object{}
	for _, m := range rows[:min(len(rows), int(limit))] {
		list = append(list, transaction(m))
	}
	return listed(r, list, len(rows) > int(limit)), nil
}

// transaction is a movement in the company's form.
func transaction(m sandbox.Movement) object {
	intent := object{"id": intentID + m.PaymentRef.String(), "object": "payment_intent", "metadata": object{"payment_no": m.PaymentNo}}
	money := strings.ToLower(m.Currency)
	m.Amount = units(m.Amount, m.Currency)
	o := object{
		"id": fmt.Sprintf("txn_%d_%s", m.At.UnixMicro(), m.Ref), "object": "balance_transaction", "created": m.At.Unix(), "currency": money,
		"type": "charge", "amount": m.Amount,
		"source": object{"id": "ch_" + m.Ref.String(), "object": "charge", "amount": m.Amount, "currency": money, "payment_intent": intent},
	}
	if m.ChargedBack {
		o["type"], o["reporting_category"], o["amount"] = "adjustment", "dispute", -m.Amount
		o["source"] = object{"id": disputeID + m.Ref.String(), "object": "dispute", "amount": max(m.Amount, -m.Amount), "currency": money, "payment_intent": intent}
	}
	if m.RefundNo != "" {
		o["type"], o["amount"] = "refund", -m.Amount
		if m.Amount < 0 {
			o["type"] = "refund_failure"
		}
		o["source"] = object{
			"id": refundID + m.Ref.String(), "object": "refund", "amount": max(m.Amount, -m.Amount), "currency": money, "payment_intent": intent,
			"metadata": object{"refund_no": m.RefundNo, "payment_no": m.PaymentNo},
		}
	}
	return o
}
