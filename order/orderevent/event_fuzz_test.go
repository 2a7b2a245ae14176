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
		payloads, err := Pack(first.Orders)
		if err != nil {
			t.Fatal(err)
		}
		for _, payload := range payloads {
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
