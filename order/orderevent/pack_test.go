package orderevent

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stampede/platform/ids"
)

func drawOrder(t *rapid.T) Order {
	instant := rapid.Custom(func(t *rapid.T) time.Time {
		return time.UnixMicro(rapid.Int64Range(0, 4e15).Draw(t, "µs")).UTC()
	})
	return Order{
		No: ids.NewFor(rapid.Int64().Draw(t, "no")), UserID: rapid.Int64().Draw(t, "user"), ItemID: rapid.Int64().Draw(t, "item"),
		ActivityID: rapid.Int64().Draw(t, "activity"), SessionID: rapid.Int64().Draw(t, "session"),
		Shard: rapid.Int16().Draw(t, "shard"), PerActivity: rapid.Bool().Draw(t, "per activity"),
		Epoch: rapid.Int64().Draw(t, "epoch"), Quantity: rapid.Int32().Draw(t, "quantity"),
		UnitPrice: rapid.Int64().Draw(t, "price"), Currency: rapid.SampledFrom([]string{"CNY", "EUR"}).Draw(t, "currency"),
		Title:  rapid.String().Draw(t, "title"),
		Status: rapid.SampledFrom([]string{StatusPending, StatusRefused}).Draw(t, "status"),
		Reason: rapid.SampledFrom([]string{"", ReasonShortfall}).Draw(t, "reason"), Version: rapid.Int32().Draw(t, "version"),
		PayDeadline: instant.Draw(t, "deadline"), CreatedAt: instant.Draw(t, "created"), UpdatedAt: instant.Draw(t, "updated"),
	}
}

func TestAppendJSONMeansWhatEncodingJSONWrites(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := drawOrder(t)
		var got Order
		raw := want.AppendJSON(nil)
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatalf("%v: %s", err, raw)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		var ours, theirs any
		reference, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if json.Unmarshal(raw, &ours) != nil || json.Unmarshal(reference, &theirs) != nil {
			t.Fatal("not JSON")
		}
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Fatalf("members differ: %s", diff)
		}
	})
}

func TestPackSplitsAndLosesNothing(t *testing.T) {
	t.Parallel()
	for _, count := range []int{0, 1, 2, 1200, 5000} {
		orders := make([]Order, count)
		for i := range orders {
			orders[i] = Order{
				No: ids.NewFor(int64(i)), UserID: int64(i), Title: strings.Repeat("鞋", i%120), Status: StatusPending,
				Currency: "CNY", Version: 1, Quantity: 1,
			}
		}
		p := Pack(orders)
		if len(p.Each) != count {
			t.Fatalf("%d orders gave %d pieces", count, len(p.Each))
		}
		var back []Order
		for _, payload := range p.Payloads {
			if len(payload) > MaxPayloadBytes {
				t.Errorf("a payload of %d bytes", len(payload))
			}
			var c Changed
			if err := json.Unmarshal(payload, &c); err != nil {
				t.Fatal(err)
			}
			back = append(back, c.Orders...)
		}
		if diff := cmp.Diff(orders, append([]Order{}, back...)); diff != "" {
			t.Fatalf("%d orders: %s", count, diff)
		}
		for i, each := range p.Each {
			var o Order
			if err := json.Unmarshal(each, &o); err != nil || o.No != orders[i].No {
				t.Fatalf("piece %d: %v, %s", i, err, each)
			}
		}
		if count >= 1200 && len(p.Payloads) < 2 {
			t.Errorf("%d orders fit one payload; the test proves no split", count)
		}
	}
}

func TestAppendJSONDoesNotAllocate(t *testing.T) {
	o := Order{No: ids.NewFor(1), Title: "限量版跑鞋", Status: StatusPending, Currency: "CNY", PayDeadline: time.Now()}
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { buf = o.AppendJSON(buf[:0]) }); n > 0 {
		t.Errorf("%.0f allocations", n)
	}
}
