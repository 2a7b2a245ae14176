package seckill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stampede/inventory"
	"stampede/platform/base/fault"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
)

// SessionDraft is the body that creates a session; it may include items.
type SessionDraft struct {
	Name                string      `json:"name" doc:"1 to 120 characters" example:"10:00"`
	OpensAt             time.Time   `json:"opens_at" doc:"When the items go on sale"`
	ClosesAt            time.Time   `json:"closes_at" doc:"When the sale closes, at least 10 s later"`
	ReservationOpensAt  *time.Time  `json:"reservation_opens_at,omitempty" doc:"When reservations open; if given, only shoppers who reserved the item get a rush path"`
	ReservationClosesAt *time.Time  `json:"reservation_closes_at,omitempty" doc:"When reservations close, no later than the session's opening"`
	ReservationCap      float64     `json:"reservation_cap,omitempty" minimum:"0" maximum:"1000" doc:"The most reservations of an item, as a multiple of its stock, at least 1; 0 is no cap" example:"20"`
	Items               []ItemDraft `json:"items,omitempty" maxItems:"1000" doc:"Items to create with it"`
}

// newSession is a session draft with the activity it belongs to.
type newSession struct {
	ActivityID wire.ID `json:"activity_id"`
	SessionDraft
}

// sessionPatch changes only the fields it names.
type sessionPatch struct {
	Version             int32      `json:"version" minimum:"1" doc:"The version that was read; the edit is refused if the database has another one"`
	Name                *string    `json:"name,omitempty" doc:"1 to 120 characters"`
	OpensAt             *time.Time `json:"opens_at,omitempty" doc:"When the items go on sale"`
	ClosesAt            *time.Time `json:"closes_at,omitempty" doc:"When the sale closes, at least 10 s later"`
	ReservationOpensAt  *time.Time `json:"reservation_opens_at,omitempty" doc:"When reservations open"`
	ReservationClosesAt *time.Time `json:"reservation_closes_at,omitempty" doc:"When reservations close, no later than the session's opening"`
	ReservationCap      *float64   `json:"reservation_cap,omitempty" minimum:"0" maximum:"1000" doc:"The most reservations of an item, as a multiple of its stock, at least 1; 0 is no cap"`
	WithoutReservation  bool       `json:"without_reservation,omitempty" doc:"Removes the reservation; replaces the other three fields"`
}

// minSession is the shortest session: in a shorter one, shoppers could not get
// from the opening through a rush path to an attempt.
const minSession = 10 * time.Second

// rows are the rows that the draft inserts.
func (in *SessionDraft) rows() *twig {
	t := &twig{session: seckilldb.SeckillSession{
		Name: in.Name, OpensAt: in.OpensAt, ClosesAt: in.ClosesAt, ReservationOpensAt: in.ReservationOpensAt,
		ReservationClosesAt: in.ReservationClosesAt, ReservationCap: in.ReservationCap,
	}}
	for i := range in.Items {
		t.items = append(t.items, in.Items[i].row())
	}
	return t
}

// sessionDraft checks a session that is created together with its activity.
func (f *flaws) sessionDraft(location string, in *SessionDraft, a *seckilldb.SeckillActivity) {
	f.session(location, &in.rows().session, a)
	for i := range in.Items {
		f.itemDraft(fmt.Sprintf("%s.items[%d]", location, i), &in.Items[i])
	}
}

// session checks what an operator sets on a session.
func (f *flaws) session(location string, s *seckilldb.SeckillSession, a *seckilldb.SeckillActivity) {
	f.name(location+".name", s.Name)
	f.moment(location+".opens_at", s.OpensAt)
	f.moment(location+".closes_at", s.ClosesAt)
	f.add(s.ClosesAt.Sub(s.OpensAt) >= minSession, location+".closes_at", s.ClosesAt,
		fault.T("A session lasts at least 10 seconds.", "场次至少持续 10 秒。"))
	f.add(!s.OpensAt.Before(a.StartsAt), location+".opens_at", s.OpensAt,
		fault.T("A session opens no earlier than its activity starts.", "场次开抢不能早于活动开始。"))
	f.add(!s.ClosesAt.After(a.EndsAt), location+".closes_at", s.ClosesAt,
		fault.T("A session closes no later than its activity ends.", "场次结束不能晚于活动结束。"))
	if share := a.PaymentWindowShare; share != nil {
		window := time.Duration(*share * float64(s.ClosesAt.Sub(s.OpensAt)))
		f.add(window >= minPayWindow, location+".closes_at", s.ClosesAt,
			fault.T("The activity's share of this session is a payment window below 10 seconds.", "按比例计算的付款时限不足 10 秒。"))
	}
	f.reservation(location, s)
}

// spanHolds checks the existing sessions of an edited activity.
func (f *flaws) spanHolds(b *branch) {
	for i := range b.sessions {
		var inner flaws
		inner.session("body", &b.sessions[i].session, &b.activity)
		if len(inner) > 0 {
			f.add(false, inner[0].Location, inner[0].Value,
				fault.T("Session {session} would break a rule: {rule}",
					"场次 {session} 不符合规则：{rule}", "session", b.sessions[i].session.ID, "rule", inner[0].Says))
		}
	}
}

// ahead refuses an opening too soon for a published activity: its stock has to
// be loaded before, and the freeze would begin immediately.
func (c *change) ahead(f *flaws, location string, opensAt time.Time) {
	if c.published() {
		f.add(opensAt.Sub(c.at) > freezeBefore, location, opensAt,
			fault.T("In a published activity a session opens more than 60 seconds from now.",
				"已发布的活动，场次开抢时间须在 60 秒以后。"))
	}
}

// createSession adds a session to an activity.
func (s *Service) createSession(ctx context.Context, key string, in newSession) (sessionView, error) {
	var out sessionView
	err := s.transact(ctx, func(ctx context.Context, c *change) (err error) {
		out, err = once(ctx, c, key, "session.create", in, func() (sessionView, error) {
			if err := c.lock(ctx, int64(in.ActivityID), actEdit); err != nil {
				return sessionView{}, err
			}
			return c.addSession(ctx, &in)
		})
		return err
	})
	return out, err
}

// addSession checks a session against its activity and the existing sessions, and
// inserts it.
func (c *change) addSession(ctx context.Context, in *newSession) (sessionView, error) {
	tree, err := readTree(ctx, c.q, []seckilldb.SeckillActivity{c.activity})
	if err != nil {
		return sessionView{}, err
	}
	before := tree[0].stock()
	var f flaws
	f.sessionDraft("body", &in.SessionDraft, &c.activity)
	c.ahead(&f, "body.opens_at", in.OpensAt)
	f.add(len(tree[0].sessions) < maxSessionsPerEntry, "body.activity_id", in.ActivityID,
		fault.T("An activity has {most} sessions at most.", "一个活动最多 {most} 个场次。", "most", maxSessionsPerEntry))
	f.add(len(before)+len(in.Items) <= maxItemsPerActivity, "body.items", nil,
		fault.T("An activity has {most} items at most.", "一个活动最多 {most} 件商品。", "most", maxItemsPerActivity))
	if err := f.err(); err != nil {
		return sessionView{}, err
	}
	view, err := c.insertDraft(ctx, "body", &in.SessionDraft)
	if err != nil {
		return sessionView{}, err
	}
	return view, c.changedBelow(ctx, before)
}

// insertDraft writes a checked session with its items and their details.
func (c *change) insertDraft(ctx context.Context, location string, in *SessionDraft) (sessionView, error) {
	view, err := c.insertSession(ctx, location, in.rows())
	if err != nil {
		return sessionView{}, err
	}
	return view, c.putDetails(ctx, view.Items, in.Items)
}

// insertSession writes a checked session and its items. It ignores ids and
// counters in the given rows, so that an existing session can be passed in to
// be copied.
func (c *change) insertSession(ctx context.Context, location string, t *twig) (sessionView, error) {
	row, err := c.q.InsertSession(ctx, seckilldb.InsertSessionParams{
		ActivityID: c.activity.ID, Name: t.session.Name, OpensAt: t.session.OpensAt, ClosesAt: t.session.ClosesAt,
		RepeatOf: t.session.RepeatOf, RepeatDay: t.session.RepeatDay, ReservationOpensAt: t.session.ReservationOpensAt,
		ReservationClosesAt: t.session.ReservationClosesAt, ReservationCap: t.session.ReservationCap,
	})
	if err != nil {
		return sessionView{}, fmt.Errorf("seckill: insert session: %w", err)
	}
	view := viewSession(&row)
	if err := c.record(ctx, "session.create", sessionSubject(row.ID), created(view)); err != nil {
		return sessionView{}, err
	}
	for i := range t.items {
		item, err := c.insertItem(ctx, fmt.Sprintf("%s.items[%d]", location, i), row.ID, t.items[i])
		if err != nil {
			return sessionView{}, err
		}
		view.Items = append(view.Items, viewItem(&item))
	}
	return view, nil
}

// changedBelow completes a change to the activity's sessions or items: it makes
// the stock follow the new plan and marks views and catalogues as stale. before
// is the plan when the change began.
func (c *change) changedBelow(ctx context.Context, before []inventory.NewStock) error {
	if c.published() {
		tree, err := readTree(ctx, c.q, []seckilldb.SeckillActivity{c.activity})
		if err != nil {
			return err
		}
		after := tree[0].stock()
		if len(after) == 0 {
			return errLastItem
		}
		var f flaws
		if c.payable(&f, &tree[0]); len(f) > 0 {
			return f.err()
		}
		if err := c.restock(ctx, before, after); err != nil {
			return err
		}
	}
	return c.touch(ctx)
}

// errLastItem prevents a published activity from losing its last item and never
// opening.
var errLastItem = errNotEditable.Saying(
	fault.T("A published activity keeps at least one item; delete the activity instead, or terminate it.",
		"已发布的活动至少保留一件商品；请删除或终止整个活动。"))

// editSession applies a patch to a session.
func (s *Service) editSession(ctx context.Context, id int64, in sessionPatch) (sessionView, error) {
	var out sessionView
	err := s.transact(ctx, func(ctx context.Context, c *change) error {
		b, t, err := c.lockSession(ctx, id, actAmend)
		if err != nil {
			return err
		}
		if t.session.Version != in.Version {
			return errStale(t.session.Version)
		}
		before, row := b.stock(), t.session
		row.Name = optional(in.Name, row.Name)
		row.OpensAt = optional(in.OpensAt, row.OpensAt)
		row.ClosesAt = optional(in.ClosesAt, row.ClosesAt)
		in.reservationOver(&row)
		var f flaws
		f.session("body", &row, &c.activity)
		if c.amends() {
			if err := c.amendSession(&f, t.session, row); err != nil {
				return err
			}
		} else {
			c.ahead(&f, "body.opens_at", row.OpensAt)
			c.capHolds(&f, &t.session, &row)
		}
		if err := f.err(); err != nil {
			return err
		}
		if unchanged(viewSession(&t.session), viewSession(&row)) {
			out = viewTwig(t)
			return nil
		}
		if row, err = c.updateSession(ctx, &t.session, &row); err != nil {
			return err
		}
		if c.amends() {
			err = errors.Join(c.extendStock(ctx, t, &row), c.touch(ctx))
		} else {
			err = c.changedBelow(ctx, before)
		}
		if err != nil {
			return err
		}
		out = viewTwig(&twig{session: row, items: t.items})
		return c.record(ctx, "session.edit", sessionSubject(id), edited(viewSession(&t.session), viewSession(&row)))
	})
	return out, err
}

// updateSession writes an edited session. A newly introduced cap starts from
// the existing reservations: counters left over from an earlier cap are out of
// date.
func (c *change) updateSession(ctx context.Context, before, row *seckilldb.SeckillSession) (seckilldb.SeckillSession, error) {
	if before.ReservationCap == 0 && row.ReservationCap > 0 {
		if err := c.q.ForgetReservationCounts(ctx, row.ID); err != nil {
			return seckilldb.SeckillSession{}, fmt.Errorf("seckill: forget reservation counts: %w", err)
		}
	}
	out, err := c.q.UpdateSession(ctx, seckilldb.UpdateSessionParams{
		ID: row.ID, Name: row.Name, OpensAt: row.OpensAt, ClosesAt: row.ClosesAt, ReservationOpensAt: row.ReservationOpensAt,
		ReservationClosesAt: row.ReservationClosesAt, ReservationCap: row.ReservationCap,
	})
	if err != nil {
		return seckilldb.SeckillSession{}, fmt.Errorf("seckill: update session: %w", err)
	}
	return out, nil
}

// deleteSession removes a session with its items.
func (s *Service) deleteSession(ctx context.Context, id int64) error {
	return s.transact(ctx, func(ctx context.Context, c *change) error {
		b, t, err := c.lockSession(ctx, id, actEdit)
		if err != nil {
			return err
		}
		before := b.stock()
		if err := c.q.DeleteSession(ctx, id); err != nil {
			return fmt.Errorf("seckill: delete session: %w", err)
		}
		if err := c.changedBelow(ctx, before); err != nil {
			return err
		}
		c.logDeletion("session", id)
		return c.record(ctx, "session.delete", sessionSubject(id), deleted(viewTwig(t)))
	})
}

// lockSession locks the activity of a session for an action and reads its whole
// tree.
func (c *change) lockSession(ctx context.Context, id int64, act action) (*branch, *twig, error) {
	row, err := c.q.Session(ctx, id)
	if err != nil {
		return nil, nil, orNotFound(err, errNoSession, "read session")
	}
	if err := c.lock(ctx, row.ActivityID, act); err != nil {
		return nil, nil, err
	}
	tree, err := readTree(ctx, c.q, []seckilldb.SeckillActivity{c.activity})
	if err != nil {
		return nil, nil, err
	}
	// Looked up again under the lock: another operator may have deleted it while this request
	// waited.
	t, ok := tree[0].session(id)
	if !ok {
		return nil, nil, errNoSession
	}
	return &tree[0], t, nil
}

// sessionSubject names a session in the audit log.
func sessionSubject(id int64) string { return fmt.Sprintf("session %d", id) }

// readSession returns a session with its items.
func (s *Service) readSession(ctx context.Context, id int64) (out sessionView, err error) {
	err = s.snapshot(ctx, func(q *seckilldb.Queries) error {
		row, err := q.Session(ctx, id)
		if err != nil {
			return orNotFound(err, errNoSession, "read session")
		}
		tree, err := readTree(ctx, q, []seckilldb.SeckillActivity{{ID: row.ActivityID}})
		if err != nil {
			return err
		}
		t, ok := tree[0].session(id)
		if !ok {
			return errNoSession
		}
		out = viewTwig(t)
		return nil
	})
	return out, err
}
