package order

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
)

func anyOrder(rt *rapid.T) orderevent.Order {
	at := func(name string) time.Time {
		return time.UnixMicro(rapid.Int64Range(-62_135_596_800_000_000, 4_102_444_800_000_000).Draw(rt, name)).UTC()
	}
	return orderevent.Order{
		No: ids.NewFor(rapid.Int64Range(1, math.MaxInt64).Draw(rt, "user of no")), UserID: rapid.Int64().Draw(rt, "user"),
		ItemID: rapid.Int64().Draw(rt, "item"), ActivityID: rapid.Int64().Draw(rt, "activity"), SessionID: rapid.Int64().Draw(rt, "session"),
		Shard: rapid.Int16().Draw(rt, "shard"), PerActivity: rapid.Bool().Draw(rt, "per activity"), Epoch: rapid.Int64().Draw(rt, "epoch"),
		Quantity: rapid.Int32().Draw(rt, "quantity"), UnitPrice: rapid.Int64().Draw(rt, "price"), Currency: rapid.String().Draw(rt, "currency"),
		Title: rapid.String().Draw(rt, "title"), Status: rapid.String().Draw(rt, "status"), Reason: rapid.String().Draw(rt, "reason"),
		Version: rapid.Int32().Draw(rt, "version"), PayDeadline: at("deadline"), CreatedAt: at("created"), UpdatedAt: at("updated"),
	}
}

// TestCachedRoundTrip reads back what was written, and rejects entries that
// were cut.
func TestCachedRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		o := anyOrder(rt)
		raw := appendCached(nil, &o)
		got, err := readCached(raw)
		if err != nil {
			rt.Fatal(err)
		}
		if d := cmp.Diff(o, got); d != "" {
			rt.Fatal(d)
		}
		if _, err := readCached(raw[:rapid.IntRange(0, len(raw)-1).Draw(rt, "cut")]); err == nil {
			rt.Fatal("a truncated entry was accepted")
		}
		if _, err := readCached(append(raw, 0)); err == nil {
			rt.Fatal("an entry with trailing bytes was accepted")
		}
	})
}

func FuzzReadCached(f *testing.F) {
	o := orderevent.Order{No: ids.NewFor(1), UserID: 1, Title: "Phone", Currency: "CNY", Version: 3}
	f.Add(appendCached(nil, &o))
	f.Add([]byte(`{"order_no":"x"}`))
	f.Add([]byte("o1:"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if o, err := readCached(raw); err == nil {
			if again, err := readCached(appendCached(nil, &o)); err != nil || again != o {
				t.Fatalf("%+v became %+v, %v", o, again, err)
			}
		}
	})
}
