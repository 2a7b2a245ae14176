package change

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/platform/workshop/require"
)

func zoneOf(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	require.NoError(t, err)
	return z
}

// TestAtWallTime covers the days on which the clocks are put forward and
// back, in a zone ahead of UTC and one behind it.
func TestAtWallTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone, wall, want string
		exact            bool
	}{
		{"Asia/Shanghai", "2026-11-11T10:00:00Z", "2026-11-11T02:00:00Z", true},
		{"America/New_York", "2026-03-08T01:59:59Z", "2026-03-08T06:59:59Z", true},
		{"America/New_York", "2026-03-08T02:30:00Z", "2026-03-08T07:30:00Z", false}, // there is no 02:30; it is 03:30
		{"America/New_York", "2026-03-08T03:00:00Z", "2026-03-08T07:00:00Z", true},
		{"America/New_York", "2026-11-01T01:30:00Z", "2026-11-01T05:30:00Z", true}, // twice; the first
		{"America/New_York", "2026-11-01T02:00:00Z", "2026-11-01T07:00:00Z", true},
		{"Europe/Berlin", "2026-03-29T02:30:00Z", "2026-03-29T01:30:00Z", false},
		{"Europe/Berlin", "2026-10-25T02:30:00Z", "2026-10-25T00:30:00Z", true},
		{"Australia/Lord_Howe", "2026-10-04T02:15:00Z", "2026-10-03T15:45:00Z", false}, // half an hour is put forward
		{"Pacific/Apia", "2011-12-31T10:00:00Z", "2011-12-30T20:00:00Z", true},         // the day after one that the calendar skipped
	} {
		wall, err := time.Parse(time.RFC3339, c.wall)
		require.NoError(t, err)
		at, exact := atWallTime(wall, zoneOf(t, c.zone))
		if got := at.UTC().Format(time.RFC3339); got != c.want || exact != c.exact {
			t.Errorf("%s in %s is %s (exact %v), want %s (%v)", c.wall, c.zone, got, exact, c.want, c.exact)
		}
	}
}

// TestShiftSpanKeepsLengthOverClockChanges checks that a span keeps its length
// when its end would otherwise not come after its beginning.
func TestShiftSpanKeepsLengthOverClockChanges(t *testing.T) {
	t.Parallel()
	zone := zoneOf(t, "America/New_York")
	for _, c := range []struct{ name, from, to, wantFrom, wantTo string }{
		{"begins where no time is", "2026-03-01T07:30:00Z", "2026-03-01T08:00:00Z", "2026-03-08T07:30:00Z", "2026-03-08T08:00:00Z"},
		{"lies where no time is", "2026-03-01T07:10:00Z", "2026-03-01T07:50:00Z", "2026-03-08T07:10:00Z", "2026-03-08T07:50:00Z"},
		{"ended in the second 01:10", "2026-11-01T05:50:00Z", "2026-11-01T06:10:00Z", "2026-11-08T06:50:00Z", "2026-11-08T07:10:00Z"},
		{"ends where no time is", "2026-03-01T06:30:00Z", "2026-03-01T07:30:00Z", "2026-03-08T06:30:00Z", "2026-03-08T07:30:00Z"},
		{"lasts through the night", "2026-03-01T01:00:00Z", "2026-03-01T13:00:00Z", "2026-03-08T01:00:00Z", "2026-03-08T12:00:00Z"},
	} {
		var at [4]time.Time
		for i, s := range []string{c.from, c.to, c.wantFrom, c.wantTo} {
			var err error
			if at[i], err = time.Parse(time.RFC3339, s); err != nil {
				t.Fatal(err)
			}
		}
		from, to := shiftSpan(at[0], at[1], 7*24*time.Hour, zone)
		if !from.Equal(at[2]) || !to.Equal(at[3]) {
			t.Errorf("%s: %v to %v, want %v to %v", c.name, from.UTC(), to.UTC(), at[2], at[3])
		}
	}
}

// TestShiftedSpans checks that, for any span, number of days and zone, the
// shifted span begins at the same wall clock time if that exists, and ends
// after it begins.
func TestShiftedSpans(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		zone := zoneOf(t, rapid.SampledFrom([]string{"Asia/Shanghai", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca", "UTC"}).Draw(rt, "zone"))
		from := time.Unix(rapid.Int64Range(1_767_225_600, 1_830_297_600).Draw(rt, "from"), 0)
		to := from.Add(time.Duration(rapid.IntRange(10, 200_000).Draw(rt, "seconds")) * time.Second)
		days := rapid.IntRange(-400, 400).Draw(rt, "days")
		newFrom, newTo := shiftSpan(from, to, time.Duration(days)*24*time.Hour, zone)
		wall := wallTime(from, zone).AddDate(0, 0, days)
		if got := wallTime(newFrom, zone); !got.Equal(wall) {
			if at, exact := atWallTime(wall, zone); exact || !at.Equal(newFrom) {
				rt.Fatalf("%v shifted by %d days begins at %v on the wall, want %v", from.In(zone), days, got, wall)
			}
		}
		if days == 0 && wallTime(newFrom, zone) != wallTime(from, zone) {
			rt.Fatalf("shifted by nothing: %v became %v", from, newFrom)
		}
		// The clocks being put back once and forward once changes a length by at most two
		// hours.
		if lost := to.Sub(from) - newTo.Sub(newFrom); lost.Abs() > 2*time.Hour || !newTo.After(newFrom) {
			rt.Fatalf("a span of %v became one of %v", to.Sub(from), newTo.Sub(newFrom))
		}
	})
}
