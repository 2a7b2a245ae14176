package change

import (
	"context"
	"fmt"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/store/pg"
	"stampede/seckill/plan"
)

// maxShiftDays is ten years; a longer shift is a typing error.
const maxShiftDays = 3660

// activityCloning is the body of a clone request: when the new activity takes
// place.
type activityCloning struct {
	Name      *string    `json:"name,omitempty" doc:"1 to 120 characters; the same name unless given"`
	StartsAt  *time.Time `json:"starts_at,omitempty" doc:"When the new activity starts; everything in it moves by the same distance on the shop's clock"`
	ShiftDays *int32     `json:"shift_days,omitempty" minimum:"-3660" maximum:"3660" doc:"Shift everything by this many days of the shop's calendar, instead of giving starts_at" example:"7"`
}

// cloneActivity makes a draft of an activity in any state: its rules, sessions
// and items, at other times. Sales, pauses and admission rates are not copied.
// An agreement to oversell is copied with its reason; operators can see and
// withdraw it while the clone is a draft. The original is locked, so that the clone
// reflects one moment. The clone is checked like any draft: rules may have become
// stricter since the original was created.
func cloneActivity(ctx context.Context, c *change, id int64, in activityCloning) (plan.ActivityView, error) {
	tree, err := c.lockTree(ctx, id, plan.ActClone)
	if err != nil {
		return plan.ActivityView{}, err
	}
	var f plan.Flaws
	f.Add((in.StartsAt == nil) != (in.ShiftDays == nil), "body", nil,
		fault.T("A clone starts at starts_at or shift_days after the original; give one of the two.", "请填写日期顺延天数。"))
	if days := in.ShiftDays; days != nil {
		f.Add(*days >= -maxShiftDays && *days <= maxShiftDays, "body.shift_days", *days,
			fault.T("The shift is {least} to {most} days.",
				"日期顺延天数为 {least} 至 {most}。", "least", -maxShiftDays, "most", maxShiftDays))
	}
	if in.StartsAt != nil {
		f.Moment("body.starts_at", *in.StartsAt)
	}
	if err := f.Err(); err != nil {
		return plan.ActivityView{}, err
	}
	clone := shifted(tree, &in, c.s.cfg.Zone())
	f.Activity(&clone.SeckillActivity, false)
	f.SpanHolds(clone)
	if err := f.Err(); err != nil {
		return plan.ActivityView{}, err
	}
	if err := c.insertActivity(ctx, clone.SeckillActivity); err != nil {
		return plan.ActivityView{}, err
	}
	view := plan.ViewActivity(&c.activity)
	err = c.record(ctx, "activity.clone", plan.ActivitySubject(c.activity.ID), created(map[string]any{"of": plan.ActivitySubject(id), "activity": view}))
	if err != nil {
		return plan.ActivityView{}, err
	}
	view.Sessions, err = c.insertClones(ctx, clone.Sessions)
	return view, err
}

// insertClones writes the sessions of a clone. A series of repeated sessions
// becomes a series in the clone, linked to the clone's own first session.
func (c *change) insertClones(ctx context.Context, plans []plan.Session) ([]plan.SessionView, error) {
	var views []plan.SessionView
	first := make(map[int64]int64) // first session of a series → first session of its clone
	for i := range plans {
		t := &plans[i]
		series := t.ID
		if t.RepeatOf != nil {
			series = *t.RepeatOf
			t.RepeatOf = nil
			if begun, ok := first[series]; ok {
				t.RepeatOf = &begun
			} else {
				t.RepeatDay.Valid = false // first remaining session of the series
			}
		}
		view, err := c.insertSession(ctx, fmt.Sprintf("sessions[%d]", t.ID), t)
		if err != nil {
			return nil, err
		}
		if _, ok := first[series]; !ok {
			first[series] = int64(view.ID)
		}
		views = append(views, view)
	}
	return views, nil
}

// shifted returns the plan of a clone. Every time moves by the same distance on
// the shop's wall clock, so that a 10:00 opening stays at 10:00.
func shifted(b *plan.Activity, in *activityCloning, zone *time.Location) *plan.Activity {
	a := b.SeckillActivity
	var by time.Duration
	if in.StartsAt != nil {
		by = wallTime(*in.StartsAt, zone).Sub(wallTime(a.StartsAt, zone))
	} else {
		by = time.Duration(*in.ShiftDays) * 24 * time.Hour
	}
	a.Name, a.ExternalID = pg.ValueOr(in.Name, a.Name), nil // the id is the original's
	a.StartsAt, a.EndsAt = shiftSpan(a.StartsAt, a.EndsAt, by, zone)
	// Shift by the calendar days of a series' first session and not session by session, so that the days
	// of the series stay equally far apart.
	days := map[int64]time.Duration{} // by series
	out := &plan.Activity{SeckillActivity: a}
	for _, t := range b.Sessions {
		before, series := dayOf(t.OpensAt, zone), seriesOf(&t.SeckillSession)
		t.OpensAt, t.ClosesAt = shiftSpan(t.OpensAt, t.ClosesAt, by, zone)
		shiftReservation(&t.SeckillSession, by, zone)
		if _, known := days[series]; !known {
			days[series] = dayOf(t.OpensAt, zone).Sub(before)
		}
		t.RepeatDay.Time = t.RepeatDay.Time.Add(days[series])
		out.Sessions = append(out.Sessions, t)
		// If the clocks are put forward over one end of the activity but not over its session's, the session
		// could start or end outside the activity by that hour.
		out.StartsAt = earlier(out.StartsAt, t.OpensAt)
		out.EndsAt = later(out.EndsAt, t.ClosesAt)
	}
	return out
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

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
