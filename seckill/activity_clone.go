package seckill

import (
	"context"
	"fmt"
	"time"

	"stampede/platform/base/fault"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
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
// withdraw it while the clone is a draft.
func (s *Service) cloneActivity(ctx context.Context, key string, id int64, in activityCloning) (activityView, error) {
	var out activityView
	request := struct {
		ActivityID wire.ID
		activityCloning
	}{wire.ID(id), in}
	err := s.transact(ctx, func(ctx context.Context, c *change) (err error) {
		out, err = once(ctx, c, key, "activity.clone", request, func() (activityView, error) { return c.cloneActivity(ctx, id, &in) })
		return err
	})
	return out, err
}

// cloneActivity copies an activity while holding its lock, so that the clone
// reflects one moment. The clone is checked like any draft: rules may have become
// stricter since the original was created.
func (c *change) cloneActivity(ctx context.Context, id int64, in *activityCloning) (activityView, error) {
	if err := c.lock(ctx, id, actClone); err != nil {
		return activityView{}, err
	}
	tree, err := readTree(ctx, c.q, []seckilldb.SeckillActivity{c.activity})
	if err != nil {
		return activityView{}, err
	}
	var f flaws
	f.add((in.StartsAt == nil) != (in.ShiftDays == nil), "body", nil,
		fault.T("A clone starts at starts_at or shift_days after the original; give one of the two.", "请填写日期顺延天数。"))
	if days := in.ShiftDays; days != nil {
		f.add(*days >= -maxShiftDays && *days <= maxShiftDays, "body.shift_days", *days,
			fault.T("The shift is {least} to {most} days.",
				"日期顺延天数为 {least} 至 {most}。", "least", -maxShiftDays, "most", maxShiftDays))
	}
	if in.StartsAt != nil {
		f.moment("body.starts_at", *in.StartsAt)
	}
	if err := f.err(); err != nil {
		return activityView{}, err
	}
	plan := tree[0].shifted(in, c.s.cfg.Zone())
	f.activity(&plan.activity, false)
	f.spanHolds(plan)
	if err := f.err(); err != nil {
		return activityView{}, err
	}
	if err := c.insertActivity(ctx, &plan.activity); err != nil {
		return activityView{}, err
	}
	view := viewActivity(&c.activity)
	err = c.record(ctx, "activity.clone", activitySubject(c.activity.ID), created(map[string]any{"of": activitySubject(id), "activity": view}))
	if err != nil {
		return activityView{}, err
	}
	view.Sessions, err = c.insertClones(ctx, plan.sessions)
	return view, err
}

// insertClones writes the sessions of a clone. A series of repeated sessions
// becomes a series in the clone, linked to the clone's own first session.
func (c *change) insertClones(ctx context.Context, plans []twig) ([]sessionView, error) {
	var views []sessionView
	first := make(map[int64]int64) // first session of a series → first session of its clone
	for i := range plans {
		t := &plans[i]
		series := t.session.ID
		if t.session.RepeatOf != nil {
			series = *t.session.RepeatOf
			t.session.RepeatOf = nil
			if begun, ok := first[series]; ok {
				t.session.RepeatOf = &begun
			} else {
				t.session.RepeatDay.Valid = false // first remaining session of the series
			}
		}
		view, err := c.insertSession(ctx, fmt.Sprintf("sessions[%d]", t.session.ID), t)
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
func (b *branch) shifted(in *activityCloning, zone *time.Location) *branch {
	a := b.activity
	var by time.Duration
	if in.StartsAt != nil {
		by = wallTime(*in.StartsAt, zone).Sub(wallTime(a.StartsAt, zone))
	} else {
		by = time.Duration(*in.ShiftDays) * 24 * time.Hour
	}
	a.Name = optional(in.Name, a.Name)
	a.StartsAt, a.EndsAt = shiftSpan(a.StartsAt, a.EndsAt, by, zone)
	// Shift by calendar days and not session by session, so that the days of a series stay equally far
	// apart.
	days := dayOf(a.StartsAt, zone).Sub(dayOf(b.activity.StartsAt, zone))
	out := &branch{activity: a}
	for _, t := range b.sessions {
		t.session.OpensAt, t.session.ClosesAt = shiftSpan(t.session.OpensAt, t.session.ClosesAt, by, zone)
		shiftReservation(&t.session, by, zone)
		t.session.RepeatDay.Time = t.session.RepeatDay.Time.Add(days)
		out.sessions = append(out.sessions, t)
		// If the clocks are put forward over one end of the activity but not over its session's, the session
		// could start or end outside the activity by that hour.
		out.activity.StartsAt = earlier(out.activity.StartsAt, t.session.OpensAt)
		out.activity.EndsAt = later(out.activity.EndsAt, t.session.ClosesAt)
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
