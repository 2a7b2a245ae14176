package order

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

// anyOrder draws an order whose every field has any value, with its times in Postgres's
// precision.
var anyOrder = rapid.Custom(func(rt *rapid.T) orderevent.Order {
	at := rapid.Custom(func(rt *rapid.T) time.Time {
		return time.UnixMicro(rapid.Int64Range(-62_135_596_800_000_000, 4_102_444_800_000_000).Draw(rt, "µs")).UTC()
	})
	types := map[reflect.Type]*rapid.Generator[any]{reflect.TypeFor[time.Time](): at.AsAny()}
	o := rapid.MakeCustom[orderevent.Order](rapid.MakeConfig{Types: types}).Draw(rt, "order")
	if rapid.Bool().Draw(rt, "goods only") {
		o.Freight, o.Discount, o.PaidAt = 0, 0, time.Time{}
	}
	return o
})

// TestCachedRoundTrip reads back what was written, and rejects entries that
// were cut.
func TestCachedRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		o := anyOrder.Draw(rt, "order")
		raw := appendCached(nil, &o)
		got, err := readCached(raw)
		require.NoError(rt, err)
		require.Equal(rt, "the order read back", got, o)
		if _, err := readCached(raw[:rapid.IntRange(0, len(raw)-1).Draw(rt, "cut")]); err == nil {
			rt.Fatal("a truncated entry was accepted")
		}
		if _, err := readCached(append(raw, 0)); err == nil {
			rt.Fatal("an entry with trailing bytes was accepted")
		}
	})
}

// readBeforeLines reads an entry as the last version before lines did.
func readBeforeLines(raw []byte) (o orderevent.Order, ok bool) {
	_, rest, ok := bytes.Cut(raw, []byte{':'})
	if !ok || len(rest) < len(o.No) {
		return o, false
	}
	copy(o.No[:], rest)
	r := cachedReader{rest: rest[len(o.No):]}
	var shard int16
	var flags bool
	for _, f := range []any{ // spelled out: that version knows no table of fields
		&o.UserID, &o.ItemID, &o.ActivityID, &o.SessionID, &shard, &flags, &o.Epoch, &o.Quantity, &o.UnitPrice,
		&o.PayDeadline, &o.CreatedAt, &o.UpdatedAt, &o.Currency, &o.Title, &o.Status, &o.Reason,
	} {
		r.read(f)
	}
	return o, !r.bad && len(r.rest) == 0
}

// TestCachedBetweenVersions: during a rolling upgrade versions with and without
// lines share the cache, and neither may show an order at a wrong amount.
func TestCachedBetweenVersions(t *testing.T) {
	t.Parallel()
	at := time.UnixMicro(1_772_366_400_000_000).UTC()
	o := orderevent.Order{
		No: ids.NewFor(7), UserID: 7, ItemID: 1, Quantity: 2, UnitPrice: 9900, Currency: "CNY", Title: "x", Status: orderevent.StatusPending,
		Version: 1, PayDeadline: at, CreatedAt: at, UpdatedAt: at,
	}
	o.ActivityID, o.SessionID, o.Epoch = 3, 4, 5
	known := o
	known.Version = 0 // that reader leaves it to its caller
	if got, ok := readBeforeLines(appendCached(nil, &o)); !ok || got != known {
		t.Errorf("goods alone: an older version reads %+v, %v", got, ok)
	}
	for name, change := range map[string]func(*orderevent.Order){
		"freight":  func(o *orderevent.Order) { o.Freight = 800 },
		"discount": func(o *orderevent.Order) { o.Discount = 500 },
	} {
		changed := o
		change(&changed)
		if got, ok := readBeforeLines(appendCached(nil, &changed)); ok {
			t.Errorf("%s: an older version reads an amount of %d, it is %d", name, got.Amount(), changed.Amount())
		}
	}
	// What the older version writes has no flag of ours. It has been the same since
	// the creation, or may have got lines that its writer did not see.
	for version, trusted := range map[int32]bool{1: true, 2: false} {
		o.Version = version
		old := bytes.Replace(appendCached(nil, &o), []byte{0, 2 * flagKnowsLines, 10}, []byte{0, 0, 10}, 1) // shard, flags, epoch
		if got, err := readCached(old); (err == nil) != trusted || trusted && got != o {
			t.Errorf("version %d by an older version: %+v, %v", version, got, err)
		}
	}
}

// TestCachedEntriesStayAsTheyAre: the entries that 0.10.0 writes of an order with every
// part and of one without.
func TestCachedEntriesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	no, err := ids.Parse("0198f2c8b5d07c3e9a4f1b2c3d4e5f60")
	require.NoError(t, err)
	at := time.UnixMicro(1_772_366_400_000_001).UTC()
	bare := orderevent.Order{
		No: no, UserID: 7, ItemID: 8, ActivityID: 9, SessionID: 10, Shard: 11, Epoch: 12, Quantity: 2, UnitPrice: 9900, Currency: "CNY", Title: "Phone",
		Status: orderevent.StatusPaid, Reason: "x", Version: 3, PayDeadline: at, CreatedAt: at.Add(time.Second), UpdatedAt: at.Add(2 * time.Second),
	}
	whole := bare
	whole.PerActivity, whole.Freight, whole.Discount, whole.PaidAt, whole.Handover = true, 800, 500, at.Add(3*time.Second), "shipped"
	for want, o := range map[string]orderevent.Order{
		"6f333a0198f2c8b5d07c3e9a4f1b2c3d4e5f60" + "0e10121416041804d89a01" + "82c0f8daa6fda50682c9f2dba6fda50682d2ecdca6fda506" + "03434e590550686f6e6504706169640178": bare,
		"6f333a0198f2c8b5d07c3e9a4f1b2c3d4e5f60" + "0e101214161e1804d89a01" + "82c0f8daa6fda50682c9f2dba6fda50682d2ecdca6fda506" + "03434e590550686f6e6504706169640178" +
			"c00ce80782dbe6dda6fda506" + "0773686970706564": whole,
	} {
		raw := appendCached(nil, &o)
		require.Equal(t, "entry", hex.EncodeToString(raw), want)
		got, err := readCached(raw)
		require.NoError(t, err)
		require.Equal(t, "order", got, o)
	}
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
