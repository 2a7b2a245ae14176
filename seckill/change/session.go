package change

import (
	"context"
	"fmt"
	"time"

	"stampede/inventory"
	"stampede/platform/base/fault"
	"stampede/platform/edge/external"
	"stampede/platform/store/pg"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
	"stampede/seckill/plan"
)

type newSession struct {
	ActivityID wire.ID `json:"activity_id"`
	plan.SessionDraft
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
	external.Patch
	WithoutReservation bool `json:"without_reservation,omitempty" doc:"Removes the reservation; replaces the other three fields"`
}

// ahead refuses an opening too soon for a published activity: its stock has to
// be loaded before, and the freeze would begin immediately.
func (c *change) ahead(f *plan.Flaws, location string, opensAt time.Time) {
	if c.published() {
		f.Add(opensAt.Sub(c.at) > plan.FreezeBefore, location, opensAt,
			fault.T("In a published activity a session opens more than 60 seconds from now.",
				"已发布的活动，场次开抢时间须在 60 秒以后。"))
	}
}

// createSession checks a session against its activity and the existing sessions, and
// inserts it.
func createSession(ctx context.Context, c *change, in newSession) (plan.SessionView, error) {
	tree, err := c.lockTree(ctx, int64(in.ActivityID), plan.ActEdit)
	if err != nil {
		return plan.SessionView{}, err
	}
	before := tree.Stock()
	var f plan.Flaws
	f.SessionDraft("body", &in.SessionDraft, &c.activity)
	c.ahead(&f, "body.opens_at", in.OpensAt)
	f.Add(len(tree.Sessions) < plan.MaxSessions, "body.activity_id", in.ActivityID,
		fault.T("An activity has {most} sessions at most.", "一个活动最多 {most} 个场次。", "most", plan.MaxSessions))
	f.Add(len(before)+len(in.Items) <= plan.MaxItems, "body.items", nil,
		fault.T("An activity has {most} items at most.", "一个活动最多 {most} 件商品。", "most", plan.MaxItems))
	if err := f.Err(); err != nil {
		return plan.SessionView{}, err
	}
	view, err := c.insertDraft(ctx, "body", &in.SessionDraft)
	if err != nil {
		return plan.SessionView{}, err
	}
	return view, c.changedBelow(ctx, before)
}

func (c *change) insertDraft(ctx context.Context, location string, in *plan.SessionDraft) (plan.SessionView, error) {
	view, err := c.insertSession(ctx, location, in.Rows())
	if err != nil {
		return plan.SessionView{}, err
	}
	return view, c.putDetails(ctx, view.Items, in.Items)
}

// insertSession writes a checked session and its items. It ignores ids and
// counters in the given rows, so that an existing session can be passed in to
// be copied.
func (c *change) insertSession(ctx context.Context, location string, t *plan.Session) (plan.SessionView, error) {
	row := t.SeckillSession
	row.ID, row.ActivityID, row.Version = 0, c.activity.ID, 1
	if err := c.putSession(ctx, &row); err != nil {
		return plan.SessionView{}, taken(err, location, row.ExternalID)
	}
	view := plan.ViewSession(&row)
	if err := c.record(ctx, "session.create", plan.SessionSubject(row.ID), created(view)); err != nil {
		return plan.SessionView{}, err
	}
	for i := range t.Items {
		item, err := c.insertItem(ctx, fmt.Sprintf("%s.items[%d]", location, i), row.ID, t.Items[i])
		if err != nil {
			return plan.SessionView{}, err
		}
		view.Items = append(view.Items, plan.ViewItem(&item))
	}
	return view, nil
}

// changedBelow completes a change to the activity's sessions or items: it makes
// the stock follow the new plan and marks views and catalogues as stale. before
// is the plan when the change began. A correction leaves the stock as it is.
func (c *change) changedBelow(ctx context.Context, before []inventory.NewStock) error {
	if c.published() && !c.onlyCorrections() {
		tree, err := plan.Tree(ctx, c.q, c.activity)
		if err != nil {
			return err
		}
		after := tree.Stock()
		if len(after) == 0 {
			return errLastItem
		}
		if err := tree.Payable(c.s.cfg).Err(); err != nil {
			return err
		}
		if err := c.restock(ctx, before, after); err != nil {
			return err
		}
	}
	return c.touch(ctx)
}

// errLastItem prevents a published activity from losing its last item and never
// opening.
var errLastItem = plan.ErrNotEditable.Saying(
	fault.T("A published activity keeps at least one item; delete the activity instead, or terminate it.",
		"已发布的活动至少保留一件商品；请删除或终止整个活动。"))

func editSession(ctx context.Context, c *change, id int64, in sessionPatch) (out plan.SessionView, err error) {
	b, t, err := c.lockSession(ctx, id, plan.ActEditOrCorrect)
	if err != nil {
		return out, err
	}
	if t.Version != in.Version {
		return out, plan.ErrStale(t.Version)
	}
	before, row := b.Stock(), t.SeckillSession
	row.Name = pg.ValueOr(in.Name, row.Name)
	row.OpensAt = pg.ValueOr(in.OpensAt, row.OpensAt)
	row.ClosesAt = pg.ValueOr(in.ClosesAt, row.ClosesAt)
	in.reservationOver(&row)
	in.Apply(&row.ExternalID, &row.Metadata)
	var f plan.Flaws
	f.Session("body", &row, &c.activity)
	if c.onlyCorrections() {
		if err := c.correctSession(&f, "body", t.SeckillSession, row); err != nil {
			return out, err
		}
	} else {
		c.ahead(&f, "body.opens_at", row.OpensAt)
		c.capHolds(&f, "body", &t.SeckillSession, &row)
	}
	if err := f.Err(); err != nil {
		return out, err
	}
	if unchanged(plan.ViewSession(&t.SeckillSession), plan.ViewSession(&row)) {
		out = t.View()
		return out, nil
	}
	if row, err = writeSession(ctx, c, t, row); err != nil {
		return out, taken(err, "body", row.ExternalID)
	}
	return (&plan.Session{SeckillSession: row, Items: t.Items}).View(), c.changedBelow(ctx, before)
}

// writeSession writes an edit of a session, and extends the sale of its items where only
// corrections are possible.
func writeSession(ctx context.Context, c *change, t *plan.Session, row seckilldb.SeckillSession) (seckilldb.SeckillSession, error) {
	if t.ReservationCap == 0 && row.ReservationCap > 0 {
		// A new cap starts from the existing reservations: counters left over from an earlier one are out of date.
		if err := c.q.ForgetReservationCounts(ctx, row.ID); err != nil {
			return row, fmt.Errorf("change: forget reservation counts: %w", err)
		}
	}
	row.Version++
	if err := c.putSession(ctx, &row); err != nil {
		return row, err
	}
	if c.onlyCorrections() {
		if err := c.extendStock(ctx, t, &row); err != nil {
			return row, err
		}
	}
	err := c.record(ctx, "session.edit", plan.SessionSubject(row.ID), edited(plan.ViewSession(&t.SeckillSession), plan.ViewSession(&row)))
	return row, err
}

func (c *change) putSession(ctx context.Context, row *seckilldb.SeckillSession) error {
	put, err := c.q.PutSession(ctx, seckilldb.PutSessionParams{
		ID: row.ID, ActivityID: row.ActivityID, Name: row.Name, OpensAt: row.OpensAt, ClosesAt: row.ClosesAt, Version: row.Version,
		RepeatOf: row.RepeatOf, RepeatDay: row.RepeatDay, ReservationOpensAt: row.ReservationOpensAt,
		ReservationClosesAt: row.ReservationClosesAt, ReservationCap: row.ReservationCap,
		ExternalID: row.ExternalID, Metadata: row.Metadata,
	})
	if err != nil {
		return fmt.Errorf("change: put session: %w", err)
	}
	*row = put
	return nil
}

func deleteSession(ctx context.Context, c *change, id int64) error {
	b, t, err := c.lockSession(ctx, id, plan.ActEdit)
	if err != nil {
		return err
	}
	before := b.Stock()
	if err := c.q.DeleteSession(ctx, id); err != nil {
		return fmt.Errorf("change: delete session: %w", err)
	}
	if err := c.changedBelow(ctx, before); err != nil {
		return err
	}
	return c.record(ctx, "session.delete", plan.SessionSubject(id), deleted(t.View()))
}

// lockSession locks the activity of a session for an action and reads its whole
// tree.
func (c *change) lockSession(ctx context.Context, id int64, act plan.Action) (*plan.Activity, *plan.Session, error) {
	row, err := c.q.Session(ctx, id)
	if err != nil {
		return nil, nil, plan.OrNotFound(err, plan.ErrNoSession, "read session")
	}
	tree, err := c.lockTree(ctx, row.ActivityID, act)
	if err != nil {
		return nil, nil, err
	}
	// Looked up again under the lock: another operator may have deleted it while this request
	// waited.
	t, ok := tree.Session(id)
	if !ok {
		return nil, nil, plan.ErrNoSession
	}
	return tree, t, nil
}

// reservationOver applies the patch's reservation to a session's row.
func (in *sessionPatch) reservationOver(row *seckilldb.SeckillSession) {
	if in.WithoutReservation {
		row.ReservationOpensAt, row.ReservationClosesAt, row.ReservationCap = nil, nil, 0
		return
	}
	if in.ReservationOpensAt != nil {
		row.ReservationOpensAt = in.ReservationOpensAt
	}
	if in.ReservationClosesAt != nil {
		row.ReservationClosesAt = in.ReservationClosesAt
	}
	row.ReservationCap = pg.ValueOr(in.ReservationCap, row.ReservationCap)
}

// capFixedBefore is how long before reservations open the existence of their
// session's cap is fixed, so that either every reservation is counted or none
// is. It is longer than any edit takes to commit.
const capFixedBefore = time.Minute

// capHolds refuses to start or stop counting reservations while they are being
// made: the count would miss those made before or meanwhile. Replacing one cap by
// another is possible at any time and cancels no reservation.
func (c *change) capHolds(f *plan.Flaws, location string, before, after *seckilldb.SeckillSession) {
	open := before.ReservationOpensAt
	if open == nil || (before.ReservationCap > 0) == (after.ReservationCap > 0) || after.ReservationOpensAt == nil {
		return
	}
	f.Add(open.Sub(c.at) > capFixedBefore, location+".reservation_cap", after.ReservationCap,
		fault.T("From 60 seconds before reservations open, a cap can be changed but neither introduced nor removed; "+
			"to stop reservations, close them earlier.",
			"预约开始前 60 秒起，预约上限只能修改，不能新增或取消；如需停止预约，请提前截止时间。"))
}

// shiftReservation moves a session's reservation as its opening was moved. If the
// clocks change in between, the reservation still ends by the opening, and keeps
// its length rather than ending before it begins.
func shiftReservation(s *seckilldb.SeckillSession, by time.Duration, zone *time.Location) {
	if s.ReservationOpensAt == nil || s.ReservationClosesAt == nil {
		return
	}
	length := s.ReservationClosesAt.Sub(*s.ReservationOpensAt)
	from, until := shiftSpan(*s.ReservationOpensAt, *s.ReservationClosesAt, by, zone)
	until = earlier(until, s.OpensAt)
	if !from.Before(until) {
		from = until.Add(-length)
	}
	s.ReservationOpensAt, s.ReservationClosesAt = &from, &until
}
