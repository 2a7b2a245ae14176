package change

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"stampede/platform/base/fault"
	"stampede/platform/store/pg"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
	"stampede/seckill/plan"
)

// maxRepeatDays is a quarter of a year: the longest season that a shop plans in
// one request. The bounds on an activity's sessions and items apply as well.
const maxRepeatDays = 92

type sessionRepetition struct {
	LastDay        string `json:"last_day" format:"date" doc:"The last day to open on, in the shop's calendar, at most 92 days after the session's own" example:"2026-11-30"`
	ExtendActivity bool   `json:"extend_activity,omitempty" doc:"Move the activity's end to the last closing if the activity would end before that"`
}

type repeatedSessions struct {
	Created  []plan.SessionView `json:"created" nullable:"false" doc:"Sessions created, one for each day that had none"`
	Existing []repeatedDay      `json:"existing" nullable:"false" doc:"Days that already have a session, edited since or not; they are left unchanged"`
}

// repeatedDay is a day that already has its session.
type repeatedDay struct {
	Day       string  `json:"day" format:"date"`
	SessionID wire.ID `json:"session_id"`
}

// repeatSession copies a session with its items to each following day, at the
// same times on the shop's clock. Every copy is an ordinary session that can be
// edited and deleted separately. Days that already have a copy are skipped, so
// that repeating again only adds what is missing.
func repeatSession(ctx context.Context, c *change, id int64, in sessionRepetition) (repeatedSessions, error) {
	b, t, err := c.lockSession(ctx, id, plan.ActEdit)
	if err != nil {
		return repeatedSessions{}, err
	}
	zone := c.s.cfg.Zone()
	own := dayOf(t.OpensAt, zone)
	var f plan.Flaws
	until, err := time.Parse(time.DateOnly, in.LastDay)
	f.Add(err == nil && until.After(own) && until.Sub(own) <= maxRepeatDays*24*time.Hour, "body.last_day", in.LastDay,
		fault.T("The last day is 1 to {most} days after {day}, the session's own.",
			"最后一天须为 {day} 之后 1 至 {most} 天。", "most", maxRepeatDays, "day", own.Format(time.DateOnly)))
	if err := f.Err(); err != nil {
		return repeatedSessions{}, err
	}
	out := repeatedSessions{Created: []plan.SessionView{}, Existing: []repeatedDay{}}
	have := daysOf(b, seriesOf(&t.SeckillSession), zone)
	var plans []plan.Session
	for day := own.AddDate(0, 0, 1); !day.After(until); day = day.AddDate(0, 0, 1) {
		if made, ok := have[day]; ok {
			out.Existing = append(out.Existing, repeatedDay{Day: day.Format(time.DateOnly), SessionID: wire.ID(made)})
			continue
		}
		plans = append(plans, onDay(t, day, zone))
	}
	if len(plans) == 0 {
		return out, nil
	}
	if err := c.makeRoom(ctx, b, plans, &in); err != nil {
		return repeatedSessions{}, err
	}
	before := b.Stock()
	made := make([]string, len(plans))
	for i := range plans {
		view, err := c.insertSession(ctx, "body", &plans[i])
		if err != nil {
			return repeatedSessions{}, err
		}
		out.Created, made[i] = append(out.Created, view), plans[i].RepeatDay.Time.Format(time.DateOnly)
	}
	if err := c.changedBelow(ctx, before); err != nil {
		return repeatedSessions{}, err
	}
	return out, c.record(ctx, "session.repeat", plan.SessionSubject(id), created(map[string]any{"last_day": in.LastDay, "created": made, "existing": out.Existing}))
}

// makeRoom checks the copies against their activity, and extends the activity
// if the request says so.
func (c *change) makeRoom(ctx context.Context, b *plan.Activity, plans []plan.Session, in *sessionRepetition) error {
	row := c.activity
	last := plans[len(plans)-1].ClosesAt
	var f plan.Flaws
	if in.ExtendActivity {
		row.EndsAt = later(row.EndsAt, last)
		f.Activity(&row, false)
	}
	f.Add(!last.After(row.EndsAt), "body.last_day", in.LastDay,
		fault.T("The last session would close at {at}, after its activity ends; set extend_activity or move ends_at "+
			"there first.",
			"最后一个场次将超出活动结束时间，请勾选自动延长活动，或先修改活动结束时间。", "at", last.UTC().Format(time.RFC3339)))
	f.Add(len(b.Sessions)+len(plans) <= plan.MaxSessions, "body.last_day", in.LastDay,
		fault.T("That makes {sessions} sessions; an activity has {most} at most.",
			"共 {sessions} 个场次，超过一个活动的上限 {most} 个。",
			"sessions", len(b.Sessions)+len(plans), "most", plan.MaxSessions))
	items := len(b.Stock()) + len(plans)*len(plans[0].Items)
	f.Add(items <= plan.MaxItems, "body.last_day", in.LastDay,
		fault.T("That makes {items} items; an activity has {most} at most.",
			"共 {items} 件商品，超过一个活动的上限 {most} 件。", "items", items, "most", plan.MaxItems))
	for i := range plans {
		c.ahead(&f, "body.last_day", plans[i].OpensAt)
	}
	if err := f.Err(); err != nil {
		return err
	}
	if row.EndsAt.Equal(c.activity.EndsAt) {
		return nil
	}
	return writeActivity(ctx, c, row)
}

// seriesOf identifies a series of repeated sessions by its first session,
// whichever session of it is given.
func seriesOf(s *seckilldb.SeckillSession) int64 {
	return pg.ValueOr(s.RepeatOf, s.ID)
}

// daysOf maps each day of a series to its session. A copy counts for the day
// that it was made for, even after it was moved to another.
func daysOf(b *plan.Activity, series int64, zone *time.Location) map[time.Time]int64 {
	days := make(map[time.Time]int64)
	for i := range b.Sessions {
		switch s := &b.Sessions[i].SeckillSession; {
		case s.ID == series:
			days[dayOf(s.OpensAt, zone)] = s.ID
		case s.RepeatOf != nil && *s.RepeatOf == series:
			days[s.RepeatDay.Time] = s.ID
		}
	}
	return days
}

// onDay is the plan of the session's copy on another day.
func onDay(t *plan.Session, day time.Time, zone *time.Location) plan.Session {
	series := seriesOf(&t.SeckillSession)
	row := t.SeckillSession
	by := day.Sub(dayOf(row.OpensAt, zone))
	row.OpensAt, row.ClosesAt = shiftSpan(row.OpensAt, row.ClosesAt, by, zone)
	shiftReservation(&row, by, zone)
	row.ExternalID = nil // the id is the original's
	row.RepeatOf, row.RepeatDay = &series, pgtype.Date{Time: day, Valid: true}
	return plan.Session{SeckillSession: row, Items: t.Items}
}
