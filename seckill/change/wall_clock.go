package change

import "time"

// A plan moves by the shop's wall clock, not by elapsed time: what opens at
// 10:00 opens at 10:00 on every other day too, also when the clocks were put
// forward or back in between. For the calculation a wall clock time is written
// as a time in UTC, where every day has 24 hours.

// wallTime is what the wall clock in the zone shows at a moment.
func wallTime(t time.Time, zone *time.Location) time.Time {
	t = t.In(zone)
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// nearTransition is far enough from a wall clock time to be before or after a
// change of the clocks that affects it, whatever the zone's offset; no zone
// changes its clocks twice within it.
const nearTransition = 24 * time.Hour

// atWallTime is the moment at which the wall clock in the zone shows a time.
// When the clocks are put back over it there are two such moments, and it
// returns the first. When the clocks are put forward over it, exact is false,
// and the result is as long after the change as the time lies after it.
func atWallTime(wall time.Time, zone *time.Location) (at time.Time, exact bool) {
	_, before := wall.Add(-nearTransition).In(zone).Zone()
	_, after := wall.Add(nearTransition).In(zone).Zone()
	asBefore := wall.Add(-time.Duration(before) * time.Second)
	asAfter := wall.Add(-time.Duration(after) * time.Second)
	shows := func(t time.Time) bool { return wallTime(t, zone).Equal(wall) }
	switch {
	case shows(asBefore): // the earlier of the two, if both show it
		return asBefore, true
	case shows(asAfter):
		return asAfter, true
	default:
		return asBefore, false
	}
}

// shiftSpan moves a span by a distance on the wall clock. If the clocks are put
// forward over its beginning, or its end was the second occurrence of a wall
// clock time, it keeps its length instead of its end, which could come first.
func shiftSpan(from, to time.Time, by time.Duration, zone *time.Location) (newFrom, newTo time.Time) {
	newFrom, exact := atWallTime(wallTime(from, zone).Add(by), zone)
	newTo, _ = atWallTime(wallTime(to, zone).Add(by), zone)
	if !exact || !newTo.After(newFrom) {
		newTo = newFrom.Add(to.Sub(from))
	}
	return newFrom, newTo
}

// dayOf is the day of the shop's calendar that contains a moment, as midnight
// in UTC.
func dayOf(t time.Time, zone *time.Location) time.Time {
	return wallTime(t, zone).Truncate(24 * time.Hour)
}
