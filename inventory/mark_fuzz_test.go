package inventory

import (
	"fmt"
	"testing"
	"time"

	"stampede/platform/base/ids"
)

// FuzzParseOpenHold checks that a hold written by reserve.lua is read back
// unchanged, and that any other value is refused or survives a round trip.
func FuzzParseOpenHold(f *testing.F) {
	f.Add("7:1:001:1760000000000", int64(7), int32(1), int64(1), int64(1_760_000_000_000), int32(0))
	f.Add("7:2:001:1760000000000:30", int64(7), int32(2), int64(1), int64(1_760_000_000_000), int32(65535))
	f.Add("7:2:001:1760000000000:0", int64(7), int32(2), int64(1), int64(1_760_000_000_000), int32(-1))
	f.Add(":::", int64(-1), int32(0), int64(-9), int64(1<<62), int32(1))
	f.Add("1:4294967297:1:1", int64(1<<62), int32(1<<31-1), int64(100), int64(0), int32(1<<31-1))
	f.Add("1:1:1:1:4294967297", int64(1), int32(1), int64(1), int64(0), int32(0))
	f.Fuzz(func(t *testing.T, text string, user int64, quantity int32, seq, ms int64, within int32) {
		write := func(h openHold) string {
			text := fmt.Sprintf("%d:%d:%02d:%d", h.user, h.quantity, h.seq, h.at.UnixMilli())
			if h.within != 0 {
				text += fmt.Sprintf(":%d", h.within)
			}
			return text
		}
		if h, err := parseOpenHold(text); err == nil {
			if again, err := parseOpenHold(write(h)); err != nil || again != h || h.quantity < 1 || h.within < 0 {
				t.Errorf("%q became %+v and then %+v, %v", text, h, again, err)
			}
		}
		want := openHold{user: user, quantity: quantity, seq: seq, at: time.UnixMilli(ms).UTC(), within: within}
		if got, err := parseOpenHold(write(want)); (err == nil) != (quantity > 0 && within >= 0) || err == nil && got != want {
			t.Errorf("%+v decoded as %+v, %v", want, got, err)
		}
	})
}

// FuzzParseBuyer checks that an entry of the activity's buyers belongs to one
// item and is read back unchanged.
func FuzzParseBuyer(f *testing.F) {
	f.Add("0190a1b2c3d4e5f60718293a4b5c6d7e:5:x", int64(5), []byte{1}, true)
	f.Add("0190a1b2c3d4e5f60718293a4b5c6d7e:5", int64(55), []byte{}, false)
	f.Add(":5:x:x", int64(-5), []byte{}, false)
	f.Fuzz(func(t *testing.T, text string, item int64, number []byte, closed bool) {
		no, isClosed, ours, err := parseBuyer(text, item)
		if err == nil && ours {
			back := mark{no: no, closed: isClosed}
			if no2, closed2, ours2, err := parseBuyer(back.buyer(item), item); err != nil || !ours2 || no2 != no || closed2 != isClosed {
				t.Errorf("%q of item %d became %s, then %s, %v", text, item, no, no2, err)
			}
		}
		want := mark{closed: closed}
		copy(want.no[:], number)
		got, gotClosed, mine, err := parseBuyer(want.buyer(item), item)
		if err != nil || !mine || got != want.no || gotClosed != closed {
			t.Errorf("%+v of item %d decoded as %s, closed %v, ours %v, %v", want, item, got, gotClosed, mine, err)
		}
		if _, _, ours, _ := parseBuyer(want.buyer(item), item+1); ours {
			t.Errorf("item %d accepts the entry of item %d", item+1, item)
		}
	})
}

// FuzzMark checks that a mark is read back as it was written.
func FuzzMark(f *testing.F) {
	f.Add([]byte{1}, int32(1), false, false)
	f.Add([]byte{}, int32(7), true, false)
	f.Add([]byte{255}, int32(1), true, true)
	f.Fuzz(func(t *testing.T, number []byte, quantity int32, paid, closed bool) {
		want := mark{quantity: max(1, quantity), paid: paid}
		if closed {
			want = mark{closed: true}
		}
		want.no = ids.ID{}
		copy(want.no[:], number)
		if got, err := parseMark(want.String()); err != nil || got != want {
			t.Errorf("%+v decoded as %+v, %v", want, got, err)
		}
	})
}

func FuzzParseMark(f *testing.F) {
	f.Add("0190a1b2c3d4e5f60718293a4b5c6d7e:2:c")
	f.Add("0190a1b2c3d4e5f60718293a4b5c6d7e")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := parseMark(text)
		if err != nil {
			return
		}
		back, err := parseMark(m.String())
		if err != nil || back != m {
			t.Errorf("%q became %v and then %v, %v", text, m, back, err)
		}
	})
}
