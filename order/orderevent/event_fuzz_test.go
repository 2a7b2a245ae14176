package orderevent

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stampede/platform/base/ids"
)

// writable reports whether the order's times can be written in JSON.
func writable(o *Order) bool {
	for _, at := range []time.Time{o.PayDeadline, o.PaidAt, o.CreatedAt, o.UpdatedAt} {
		if _, err := at.MarshalJSON(); err != nil {
			return false
		}
	}
	return true
}

// FuzzOrder checks that an order decoded from any producer means the same after
// our own encoding, and that encoding/json would have written the same.
func FuzzOrder(f *testing.F) {
	o := Order{No: ids.NewFor(7), UserID: 7, Title: `a"b`, Status: StatusClosed, Reason: ReasonTimeout, PayDeadline: time.Unix(9, 5).UTC()}
	f.Add(o.AppendJSON(nil))
	o.Freight, o.Discount, o.PaidAt = 800, 500, time.Unix(10, 0).UTC()
	f.Add(o.AppendJSON(nil))
	f.Add([]byte(`{"user_id":"-1","title":"\ud800\u0000","pay_deadline":"2026-03-01T12:15:00+08:00","shard":-1}`))
	f.Add([]byte(`{"user_id":1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var first, second Order
		if json.Unmarshal(raw, &first) != nil || !writable(&first) {
			return
		}
		out := first.AppendJSON(nil)
		if err := json.Unmarshal(out, &second); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Fatalf("%s: %s", out, diff)
		}
	})
}

// FuzzChangedKeepsOrders checks that an event that was decoded keeps every
// order when it is packed again, and that a short event cannot become many
// orders: each takes at least "null,null,null" in the three columns.
func FuzzChangedKeepsOrders(f *testing.F) {
	raw, err := json.Marshal(Changed{Orders: []Order{{No: ids.New(), Title: "x"}, {No: ids.New(), Title: "x", UserID: 8}, {No: ids.New(), Title: "y"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"groups":[{"no":[null,null],"user":[1,2],"quantity":[1,1]},{}]}`))
	f.Add([]byte(`{"groups":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var first Changed
		if json.Unmarshal(raw, &first) != nil {
			return
		}
		if least := len(`1,1,""`); len(first.Orders)*least > len(raw) {
			t.Fatalf("%d bytes became %d orders", len(raw), len(first.Orders))
		}
		for i := range first.Orders {
			if !writable(&first.Orders[i]) {
				return
			}
		}
		var again []Order
		for _, payload := range Pack(first.Orders) {
			c, err := Decode(payload)
			if err != nil {
				t.Fatalf("%v: %s", err, payload)
			}
			again = append(again, c.Orders...)
		}
		if diff := cmp.Diff(append([]Order{}, first.Orders...), append([]Order{}, again...)); diff != "" {
			t.Fatal(diff)
		}
	})
}
