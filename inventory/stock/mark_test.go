package stock

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

// FuzzParseHold checks that a hold written by reserve.lua is read back unchanged, and that any other value is refused
// or survives a round trip.
func FuzzParseHold(f *testing.F) {
	f.Add("7:1:001:1760000000000", int64(7), int32(1), int64(1), int64(1_760_000_000_000), int32(0))
	f.Add("7:2:001:1760000000000:30", int64(7), int32(2), int64(1), int64(1_760_000_000_000), int32(65535))
	f.Add("7:2:001:1760000000000:0", int64(7), int32(2), int64(1), int64(1_760_000_000_000), int32(-1))
	f.Add(":::", int64(-1), int32(0), int64(-9), int64(1<<62), int32(1))
	f.Add("1:4294967297:1:1", int64(1<<62), int32(1<<31-1), int64(100), int64(0), int32(1<<31-1))
	f.Add("1:1:1:1:4294967297", int64(1), int32(1), int64(1), int64(0), int32(0))
	f.Fuzz(func(t *testing.T, text string, user int64, quantity int32, seq, ms int64, within int32) {
		no := ids.New()
		write := func(h StaleHold) string {
			text := fmt.Sprintf("%d:%d:%02d:%d", h.User, h.Quantity, h.Seq, h.At.UnixMilli())
			if h.PayWithin != 0 {
				text += fmt.Sprintf(":%d", h.PayWithin)
			}
			return text
		}
		if h, err := ParseHold(7, no.String(), text); err == nil {
			if again, err := ParseHold(7, no.String(), write(h)); err != nil || again != h || h.Quantity < 1 || h.PayWithin < 0 {
				t.Errorf("%q became %+v and then %+v, %v", text, h, again, err)
			}
		}
		want := StaleHold{No: no, User: user, Quantity: quantity, Seq: seq, Epoch: 7, At: time.UnixMilli(ms).UTC(), PayWithin: within}
		if got, err := ParseHold(7, no.String(), write(want)); (err == nil) != (quantity > 0 && within >= 0) || err == nil && got != want {
			t.Errorf("%+v decoded as %+v, %v", want, got, err)
		}
	})
}

// FuzzParseBuyer checks that an entry of the activity's buyers belongs to one item and is read back unchanged.
func FuzzParseBuyer(f *testing.F) {
	f.Add("0190a1b2c3d4e5f60718293a4b5c6d7e:5:x", int64(5), []byte{1}, true)
	f.Add("0190a1b2c3d4e5f60718293a4b5c6d7e:5", int64(55), []byte{}, false)
	f.Add(":5:x:x", int64(-5), []byte{}, false)
	f.Fuzz(func(t *testing.T, text string, item int64, number []byte, closed bool) {
		no, isClosed, ours, err := ParseBuyer(text, item)
		if err == nil && ours {
			back := Mark{No: no, Closed: isClosed}
			if no2, closed2, ours2, err := ParseBuyer(back.Buyer(item), item); err != nil || !ours2 || no2 != no || closed2 != isClosed {
				t.Errorf("%q of item %d became %s, then %s, %v", text, item, no, no2, err)
			}
		}
		want := Mark{Closed: closed}
		copy(want.No[:], number)
		got, gotClosed, mine, err := ParseBuyer(want.Buyer(item), item)
		if err != nil || !mine || got != want.No || gotClosed != closed {
			t.Errorf("%+v of item %d decoded as %s, closed %v, ours %v, %v", want, item, got, gotClosed, mine, err)
		}
		_, _, mine, _ = ParseBuyer(want.Buyer(item), item+1)
		require.Equal(t, "another item accepts the entry", mine, false)
	})
}

// FuzzMark checks that a mark is read back as it was written.
func FuzzMark(f *testing.F) {
	f.Add([]byte{1}, int32(1), false, false)
	f.Add([]byte{}, int32(7), true, false)
	f.Add([]byte{255}, int32(1), true, true)
	f.Fuzz(func(t *testing.T, number []byte, quantity int32, paid, closed bool) {
		want := Mark{Quantity: max(1, quantity), Paid: paid}
		if closed {
			want = Mark{Closed: true}
		}
		want.No = ids.ID{}
		copy(want.No[:], number)
		if got, err := ParseMark(want.String()); err != nil || got != want {
			t.Errorf("%+v decoded as %+v, %v", want, got, err)
		}
	})
}

func FuzzParseMark(f *testing.F) {
	f.Add("0190a1b2c3d4e5f60718293a4b5c6d7e:2:c")
	f.Add("0190a1b2c3d4e5f60718293a4b5c6d7e")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMark(text)
		if err != nil {
			return
		}
		back, err := ParseMark(m.String())
		require.NoError(t, err)
		require.Equal(t, text, back, m)
	})
}

// On a cluster a script fails if its keys are in different slots, which their tags decide.
func TestTheKeysOfAnItemShareASlot(t *testing.T) {
	t.Parallel()
	for _, i := range []Item{{ID: 1, ActivityID: 7}, {ID: 1, ActivityID: 7, Shard: 3}, {ID: 1, ActivityID: 7, PerActivity: true}} {
		for _, key := range append(i.AppendKeys(nil, 5), i.EpochKeys(6)...) {
			require.Equal(t, key+" is in the slot of "+i.group(), strings.HasPrefix(key, i.group()+":"), true)
		}
	}
}
