package orderevent

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"stampede/platform/base/ids"
)

func TestViewGolden(t *testing.T) {
	t.Parallel()
	no, err := ids.Parse("0198f2c8b5d07c3e9a4f1b2c3d4e5f60")
	if err != nil {
		t.Fatal(err)
	}
	// A zone other than UTC and whole seconds: the document shows neither.
	at := time.Date(2026, 3, 1, 20, 0, 0, 0, time.FixedZone("CST", 8*3600))
	o := Order{
		No: no, UserID: 9, ItemID: 1, ActivityID: 2, SessionID: 9007199254740993, Quantity: 2, UnitPrice: 9900, Currency: "CNY",
		Title: "限量版跑鞋", Status: StatusClosed, Reason: ReasonTimeout, Version: 2,
		PayDeadline: at.Add(15 * time.Minute), CreatedAt: at, UpdatedAt: at.Add(1500 * time.Microsecond),
	}
	paid := o
	paid.Status, paid.Reason, paid.Freight, paid.Discount, paid.PaidAt = StatusPaid, "", 800, 1500, at
	for name, c := range map[string]struct {
		doc  OrderView
		want string
	}{
		"order": {View(o), `{"order_no":"0198f2c8b5d07c3e9a4f1b2c3d4e5f60","status":"closed","reason":"timeout",` +
			`"item_id":"1","activity_id":"2","session_id":"9007199254740993","title":"限量版跑鞋","quantity":2,` +
			`"unit_price":{"amount":9900,"currency":"CNY"},"amount":{"amount":19800,"currency":"CNY"},` +
			`"lines":{"goods":{"amount":19800,"currency":"CNY"},"freight":{"amount":0,"currency":"CNY"},"discount":{"amount":0,"currency":"CNY"},` +
			`"total":{"amount":19800,"currency":"CNY"},"paid":{"amount":0,"currency":"CNY"}},` +
			`"pay_until":"2026-03-01T12:15:00.000Z","created_at":"2026-03-01T12:00:00.000Z","updated_at":"2026-03-01T12:00:00.001Z","version":2}`},
		"paid, with freight and discount": {View(paid), `{"order_no":"0198f2c8b5d07c3e9a4f1b2c3d4e5f60","status":"paid",` +
			`"item_id":"1","activity_id":"2","session_id":"9007199254740993","title":"限量版跑鞋","quantity":2,` +
			`"unit_price":{"amount":9900,"currency":"CNY"},"amount":{"amount":19100,"currency":"CNY"},` +
			`"lines":{"goods":{"amount":19800,"currency":"CNY"},"freight":{"amount":800,"currency":"CNY"},"discount":{"amount":1500,"currency":"CNY"},` +
			`"total":{"amount":19100,"currency":"CNY"},"paid":{"amount":19100,"currency":"CNY"}},` +
			`"pay_until":"2026-03-01T12:15:00.000Z","paid_at":"2026-03-01T12:00:00.000Z","created_at":"2026-03-01T12:00:00.000Z","updated_at":"2026-03-01T12:00:00.001Z","version":2}`},
		"queued": {QueuedView(no, 0), `{"order_no":"0198f2c8b5d07c3e9a4f1b2c3d4e5f60","status":"queued","position":0,"poll_after_ms":200}`},
	} {
		got, err := json.Marshal(c.doc)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestPollAfterGrowsWithinBounds(t *testing.T) {
	t.Parallel()
	last := time.Duration(0)
	for _, position := range []int64{-5, 0, 1, 100, 10_000, 18_000, 1 << 40, 1<<63 - 1} {
		got := PollAfter(position)
		if got < last || got < 200*time.Millisecond || got > 2*time.Second {
			t.Errorf("position %d polls after %s, the one before it after %s", position, got, last)
		}
		last = got
	}
	if PollAfter(0) != minPollAfter || PollAfter(1<<40) != maxPollAfter {
		t.Error("the bounds are never reached")
	}
}

func TestMoneyIsWrittenAsOnABankStatement(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]Money{
		"CNY 12.34":                 {Amount: 1234, Currency: "CNY"},
		"USD 0.05":                  {Amount: 5, Currency: "USD"},
		"CNY -0.99":                 {Amount: -99, Currency: "CNY"},
		"JPY 500":                   {Amount: 500, Currency: "JPY"},
		"KWD 1.005":                 {Amount: 1005, Currency: "KWD"},
		"CNY 0.00":                  {Amount: 0, Currency: "CNY"},
		"CNY -92233720368547758.08": {Amount: math.MinInt64, Currency: "CNY"},
	} {
		if got := m.String(); got != want {
			t.Errorf("%d %s formatted as %q, want %q", m.Amount, m.Currency, got, want)
		}
	}
}
