package seckill

import (
	"context"
	"fmt"
	"time"

	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
)

// maxShiftDays is ten years: what is further away is a typing error.
const maxShiftDays = 3660

// activityCloning is what cloning an activity takes: when the new one is to be.
type activityCloning struct {
	Name      *string    `json:"name,omitempty" doc:"1 to 120 characters; the same name unless given"`
	StartsAt  *time.Time `json:"starts_at,omitempty" doc:"When the new activity starts; everything in it moves by as much on the shop's clock"`
	ShiftDays *int32     `json:"shift_days,omitempty" minimum:"-3660" maximum:"3660" doc:"Days of the shop's calendar to move everything by, instead of starts_at" example:"7"`
}

// cloneActivity makes a draft of an activity in any state: its rules, sessions
// and items, at other times. Sales, pauses and admission rates stay behind; an
// agreement to oversell comes along with its reason and can be seen and taken
// back while the clone is a draft.
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

// cloneActivity makes a draft out of an activity that is locked meanwhile, so that
// the clone is of one moment. It is checked like any draft: what was allowed once
// need not be any more.
func (c *change) cloneActivity(ctx context.Context, id int64, in *activityCloning) (activityView, error) {
	if err := c.lock(ctx, id, actClone); err != nil {
		return activityView{}, err
	}
	tree, err := readTree(ctx, c.q, []seckilldb.SeckillActivity{c.activity})
	if err != nil {
		return activityView{}, err
	}
	var f flaws
	f.add((in.StartsAt == nil) != (in.ShiftDays == nil), "body", nil, "A clone starts at starts_at or shift_days after the original; give one of the two.")
	if days := in.ShiftDays; days != nil {
		f.add(*days >= -maxShiftDays && *days <= maxShiftDays, "body.shift_days", *days, "The shift is %d to %d days.", -maxShiftDays, maxShiftDays)
	}
	if in.StartsAt != nil {
		f.moment("body.starts_at", *in.StartsAt)
	}
	if err := f.err(); err != nil {
		return activityView{}, err
	}
	plan := tree[0].shifted(in, c.s.cfg.zone())
	f.activity(&plan.activity, false)
	f.spanHolds(plan)
	if err := f.err(); err != nil {
		return activityView{}, err
	}
	if err := c.insertActivity(ctx, &plan.activity); err != nil {
		return activityView{}, err
	}
	view := viewActivity(&c.activity)
	err = c.record(ctx, "activity.clone", activitySubject(c.activity.ID), map[string]any{"of": activitySubject(id), "activity": view})
	if err != nil {
		return activityView{}, err
	}
	view.Sessions, err = c.insertClones(ctx, plan.sessions)
	return view, err
}

// insertClones writes the sessions of a clone. Days that repeat one session go
// on being its days: the new one's.
func (c *change) insertClones(ctx context.Context, plans []twig) ([]sessionView, error) {
	var views []sessionView
	first := make(map[int64]int64) // the session that a series began with → the one that it begins with here
	for i := range plans {
		t := &plans[i]
		series := t.session.ID
		if t.session.RepeatOf != nil {
			series = *t.session.RepeatOf
			t.session.RepeatOf = nil
			if begun, ok := first[series]; ok {
				t.session.RepeatOf = &begun
			} else {
				t.session.RepeatDay.Valid = false // the first of the series that is left
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

// shifted is the plan of a clone. Every time moves by the same distance on the
// shop's clock, so that what opened at 10:00 opens at 10:00 again.
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
	// By the calendar and not session by session: the days of a series stay as far apart as they were.
	days := dayOf(a.StartsAt, zone).Sub(dayOf(b.activity.StartsAt, zone))
	out := &branch{activity: a}
	for _, t := range b.sessions {
		t.session.OpensAt, t.session.ClosesAt = shiftSpan(t.session.OpensAt, t.session.ClosesAt, by, zone)
		shiftReservation(&t.session, by, zone)
		t.session.RepeatDay.Time = t.session.RepeatDay.Time.Add(days)
		out.sessions = append(out.sessions, t)
		// Where the clocks were put forward over one end of the activity and not over its session's, the session
		// could stick out by that hour.
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
