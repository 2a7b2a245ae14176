package browse

import (
	"testing"
)

// FuzzPlace checks that a cursor decodes to the place it was encoded from, or
// is refused.
func FuzzPlace(f *testing.F) {
	f.Add("", int64(0), uint8(0), int64(0), int64(1))
	f.Add("MTIgMSAzNCA1", int64(-1), partEnded, int64(-1<<63), int64(1<<62)) // 12 1 34 5
	f.Add("MTIgOSAzNCA1", int64(1), uint8(9), int64(1), int64(1))            // 12 9 34 5
	f.Fuzz(func(t *testing.T, cursor string, at int64, part uint8, key, id int64) {
		if p, err := readPlace(cursor); err == nil && cursor != "" {
			if again, err := readPlace(p.cursor()); err != nil || again != p {
				t.Errorf("%q: %v, then %v %v", cursor, p, again, err)
			}
		}
		want := place{at, part, key, id}
		if p, err := readPlace(want.cursor()); (err == nil) != (part <= partEnded) || err == nil && p != want {
			t.Errorf("%v: %v %v", want, p, err)
		}
	})
}

// FuzzParseView checks that any content of Redis is read or refused without a
// panic.
func FuzzParseView(f *testing.F) {
	f.Add(`{"id":"1","opens_at":"2026-11-11T00:00:00Z"}`, `{"id":"2"}`)
	f.Add(`{}`, `[]`)
	f.Fuzz(func(t *testing.T, header, item string) {
		v, ok, err := parseView(map[string]string{viewSessionField: header, viewItemPrefix + "2": item})
		if err == nil && (!ok || len(v.Items) != 1) {
			t.Errorf("%q %q: %v with %d items", header, item, ok, len(v.Items))
		}
	})
}
