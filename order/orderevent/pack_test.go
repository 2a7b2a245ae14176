package orderevent

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stampede/platform/base/ids"
)

// anyOrder draws an order whose every field has any value.
var anyOrder = rapid.MakeCustom[Order](rapid.MakeConfig{Types: map[reflect.Type]*rapid.Generator[any]{
	reflect.TypeFor[time.Time](): rapid.Custom(func(t *rapid.T) time.Time {
		return time.UnixMicro(rapid.Int64Range(0, 4e15).Draw(t, "µs")).UTC()
	}).AsAny(),
}})

func packed(t rapid.TB, orders []Order) [][]byte {
	t.Helper()
	payloads, err := Pack(orders)
	if err != nil {
		t.Fatal(err)
	}
	return payloads
}

func TestPackKeepsEveryOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var orders []Order
		for range rapid.IntRange(0, 5).Draw(t, "batches") {
			of := anyOrder.Draw(t, "order")
			for range rapid.IntRange(1, 5).Draw(t, "orders") {
				o := of
				o.No, o.UserID, o.Quantity = ids.New(), rapid.Int64().Draw(t, "user"), rapid.Int32().Draw(t, "quantity")
				orders = append(orders, o)
			}
		}
		raw, err := json.Marshal(Changed{Orders: orders})
		if err != nil {
			t.Fatal(err)
		}
		var back Changed
		if err := json.Unmarshal(raw, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(append([]Order{}, orders...), back.Orders); diff != "" {
			t.Fatal(diff)
		}
		for _, event := range packed(t, orders) {
			if c, err := Decode(event); err != nil || !slices.Equal(c.Orders, orders) {
				t.Fatalf("%v, %d orders of %d: %s", err, len(c.Orders), len(orders), event)
			}
		}
	})
}

func TestPackSplits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		orders, sameFor int
		payloads        int
	}{
		"one batch":      {4096, 4096, 1},
		"a huge batch":   {13_000, 13_000, 2},
		"no two alike":   {2000, 1, 3},
		"batches of 256": {10_000, 256, 1},
		"none":           {0, 1, 0},
	} {
		orders := make([]Order, c.orders)
		for i := range orders {
			orders[i] = Order{
				No: ids.NewFor(int64(i)), UserID: int64(i), Title: strings.Repeat("鞋", 120), Status: StatusPending,
				Currency: "CNY", Version: 1, Quantity: 1, Epoch: int64(i / c.sameFor), PayDeadline: time.Unix(9, 0).UTC(),
			}
		}
		payloads := packed(t, orders)
		var back []Order
		for _, payload := range payloads {
			if len(payload) > MaxPayloadBytes {
				t.Errorf("%s: a payload of %d bytes", name, len(payload))
			}
			var c Changed
			if err := json.Unmarshal(payload, &c); err != nil {
				t.Fatal(err)
			}
			back = append(back, c.Orders...)
		}
		if !slices.Equal(orders, back) {
			t.Errorf("%s: %d orders came back as %d others", name, len(orders), len(back))
		}
		if len(payloads) != c.payloads {
			t.Errorf("%s: %d payloads, expected %d", name, len(payloads), c.payloads)
		}
		if _, err := json.Marshal(Changed{Orders: orders}); (err == nil) != (len(payloads) <= 1) {
			t.Errorf("%s: one event of %d payloads: %v", name, len(payloads), err)
		}
	}
}

func TestChangedGolden(t *testing.T) {
	t.Parallel()
	// Events outlive the program that wrote them: pinned.
	const golden = `{"groups":[{"of":{"order_no":"0198f2c8b5d07c3e9a4f1b2c3d4e5f60","user_id":"7","item_id":"1","activity_id":"2",` +
		`"session_id":"3","shard":1,"per_activity":true,"epoch":4,"quantity":2,"unit_price":9900,"currency":"CNY","title":"a\"b",` +
		`"status":"closed","reason":"timeout","version":2,"pay_deadline":"2026-03-01T12:15:00Z","created_at":"2026-03-01T12:00:00.000001Z",` +
		`"updated_at":"2026-03-01T12:15:01Z"},"no":["0198f2c8b5d07c3e9a4f1b2c3d4e5f60","0198f2c8b5d07c3e9a4f1b2c3d4e5f61"],"user":[7,8],"quantity":[2,1]}]}`
	var c Changed
	if err := json.Unmarshal([]byte(golden), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Orders) != 2 || c.Orders[1].UserID != 8 || c.Orders[1].Quantity != 1 || c.Orders[1].Title != `a"b` {
		t.Errorf("%+v", c.Orders)
	}
	if raw, err := json.Marshal(c); err != nil || string(raw) != golden {
		t.Errorf("%v\n got %s\nwant %s", err, raw, golden)
	}
	for _, bad := range []string{`{"groups":[{"no":["0198f2c8b5d07c3e9a4f1b2c3d4e5f60"],"user":[],"quantity":[1]}]}`, `{"groups":1}`, `[`} {
		if err := json.Unmarshal([]byte(bad), &c); err == nil {
			t.Errorf("accepted %s", bad)
		}
	}
}

// TestPackLeavesLinesToVersionsThatKnowThem: a version before lines would charge and
// show the goods alone, so it must not read the event.
func TestPackLeavesLinesToVersionsThatKnowThem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		order Order
		mark  string
	}{
		"goods only": {Order{UnitPrice: 9900, Quantity: 1, PaidAt: time.Unix(9, 0).UTC()}, `{"groups":[{"of":{`},
		"freight":    {Order{UnitPrice: 9900, Quantity: 1, Freight: 800}, "\x02" + `{"groups":[{"of":{`},
		"discount":   {Order{UnitPrice: 9900, Quantity: 1, Discount: 500}, "\x02" + `{"groups":[{"of":{`},
	} {
		event := packed(t, []Order{c.order})[0]
		if !strings.HasPrefix(string(event), c.mark) {
			t.Errorf("%s: %q", name, event)
		}
		if back, err := Decode(event); err != nil || back.Orders[0] != c.order {
			t.Errorf("%s: %v, %+v", name, err, back.Orders)
		}
	}
}

func FuzzChanged(f *testing.F) {
	raw, err := json.Marshal(Changed{Orders: []Order{{No: ids.New(), Title: "x"}, {No: ids.New(), Title: "x"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var c, again Changed
		if json.Unmarshal(raw, &c) != nil {
			return
		}
		out, err := json.Marshal(c)
		if err != nil {
			t.Skip("a time that JSON cannot carry, or more than one event")
		}
		if err := json.Unmarshal(out, &again); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	})
}
