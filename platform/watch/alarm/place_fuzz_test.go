package alarm_test

import (
	"testing"

	"stampede/platform/watch/alarm"
)

// FuzzParsePlace: a cursor parses to the place that it encodes, or is refused.
func FuzzParsePlace(f *testing.F) {
	f.Add("")
	f.Add("MTc2MDAwMDAwMDAwMDAwMC43")
	f.Add("MS4x")
	f.Add("LTEuLTE")
	f.Fuzz(func(t *testing.T, cursor string) {
		place, err := alarm.ParsePlace(cursor)
		if err != nil || cursor == "" {
			return
		}
		if again, err := alarm.ParsePlace(place.String()); err != nil || again != place {
			t.Fatalf("%q: %v, then %v, %v", cursor, place, again, err)
		}
	})
}
