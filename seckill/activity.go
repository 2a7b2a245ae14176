package seckill

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/identity/humancheck"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/seckillevent"
)

// Limits of an activity. The database's CHECKs enforce the same; the checks
// here produce a message that an operator can read.
const (
	maxNameRunes        = 120
	maxLimitPerUser     = 1000
	minPayWindow        = 10 * time.Second
	maxPayWindow        = 7 * 24 * time.Hour
	maxActivitySpan     = 366 * 24 * time.Hour // a year's campaign; longer is a typing error
	maxSessionsPerEntry = 200                  // one activity's sessions are read and written as a whole
	maxItemsPerActivity = 1000                 // likewise its items, in one transaction each
)

// activityDraft is the body that creates an activity. It may include sessions
// and items, so that one request creates a whole campaign.
type activityDraft struct {
	Name                 string                `json:"name" doc:"1 to 120 characters" example:"Singles' Day"`
	StartsAt             time.Time             `json:"starts_at" doc:"The earliest time a session may open"`
	EndsAt               time.Time             `json:"ends_at" doc:"The activity ends here; no session closes later"`
	LimitPerUser         int32                 `json:"limit_per_user,omitempty" minimum:"1" maximum:"1000" default:"1" doc:"Units of one item that one user may hold; an item may set less"`
	OneItemPerUser       bool                  `json:"one_item_per_user,omitempty" doc:"A user may hold one item of the activity only"`
	PaymentWindowSeconds *int32                `json:"payment_window_seconds,omitempty" minimum:"10" maximum:"604800" doc:"How long an order may stay unpaid; 900 unless given"`
	PaymentWindowShare   *float64              `json:"payment_window_share,omitempty" minimum:"0" maximum:"1" doc:"The same as a share of the session's length; replaces the duration"`
	RebuyAfterClose      *bool                 `json:"rebuy_after_close,omitempty" doc:"A user whose unpaid order was closed may buy that item again, after a pause that grows; false unless given. Items with unlimited stock may always be bought again"`
	HumanCheck           string                `json:"human_check,omitempty" enum:"none,pow,slide,verifier" default:"none" doc:"How a shopper proves to be a person before a rush path; pow is earned at the reservation where the session has one"`
	HumanCheckRate       int32                 `json:"human_check_rate,omitempty" minimum:"0" maximum:"1000" doc:"A user who requests more paths a minute than this must pass a second check; 0 turns the second check off"`
	Exclusive            bool                  `json:"exclusive,omitempty" doc:"A user takes part in one exclusive activity at a time"`
	RefundWithinHours    int32                 `json:"refund_within_hours,omitempty" minimum:"0" maximum:"8760" doc:"How long after paying a shopper may return an order that is not completed; 0 is never"`
	RefundUnits          string                `json:"refund_units,omitempty" enum:"return,write_off" default:"return" doc:"What becomes of the units of a refunded order unless an operator decides: back on sale, or never sold again"`
	Checkout             seckillevent.Checkout `json:"checkout,omitzero" doc:"What is settled between the order and its payment: how the goods reach the shopper, freight, and what the shopper tells about themselves"`
	Rules                string                `json:"rules,omitempty" maxLength:"10000" doc:"The rules in words, which shoppers read on the page of each item; GET and PUT activities/{id}/rules have them"`
	Sessions             []SessionDraft        `json:"sessions,omitempty" maxItems:"200" doc:"Sessions to create with it"`
}

// activityPatch changes only the fields it names.
type activityPatch struct {
	Version              int32                  `json:"version" minimum:"1" doc:"The version that was read; the edit is refused if the database has another one"`
	Name                 *string                `json:"name,omitempty" doc:"1 to 120 characters"`
	StartsAt             *time.Time             `json:"starts_at,omitempty" doc:"The earliest time a session may open"`
	EndsAt               *time.Time             `json:"ends_at,omitempty" doc:"The activity ends here; no session closes later"`
	LimitPerUser         *int32                 `json:"limit_per_user,omitempty" minimum:"1" maximum:"1000" doc:"Units of one item that one user may hold"`
	OneItemPerUser       *bool                  `json:"one_item_per_user,omitempty" doc:"A user may hold one item of the activity only"`
	PaymentWindowSeconds *int32                 `json:"payment_window_seconds,omitempty" minimum:"10" maximum:"604800" doc:"Replaces a share"`
	PaymentWindowShare   *float64               `json:"payment_window_share,omitempty" minimum:"0" maximum:"1" doc:"Replaces the duration"`
	RebuyAfterClose      *bool                  `json:"rebuy_after_close,omitempty" doc:"A user whose unpaid order was closed may buy again"`
	HumanCheck           *string                `json:"human_check,omitempty" enum:"none,pow,slide,verifier" doc:"How a shopper proves to be a person before a rush path"`
	HumanCheckRate       *int32                 `json:"human_check_rate,omitempty" minimum:"0" maximum:"1000" doc:"A user who requests more paths a minute than this must pass a second check; 0 turns the second check off"`
	Exclusive            *bool                  `json:"exclusive,omitempty" doc:"A user takes part in one exclusive activity at a time"`
	RefundWithinHours    *int32                 `json:"refund_within_hours,omitempty" minimum:"0" maximum:"8760" doc:"How long after paying a shopper may return an order that is not completed; 0 is never"`
	RefundUnits          *string                `json:"refund_units,omitempty" enum:"return,write_off" doc:"What becomes of the units of a refunded order unless an operator decides"`
	Checkout             *seckillevent.Checkout `json:"checkout,omitempty" doc:"Replaces the whole of it"`
}

// defaultPayWindowSeconds is long enough to find a phone and short enough that
// a unit comes back while shoppers still want it.
const defaultPayWindowSeconds = 15 * 60

// activity checks the operator's fields of a row as a whole, after a draft or a
// patch has been applied.
func (f *flaws) activity(a *seckilldb.SeckillActivity, bothWindows bool) {
	f.name("body.name", a.Name)
	f.moment("body.starts_at", a.StartsAt)
	f.moment("body.ends_at", a.EndsAt)
	f.add(a.EndsAt.After(a.StartsAt), "body.ends_at", a.EndsAt,
		fault.T("An activity ends after it starts.", "活动结束须晚于开始。"))
	f.add(a.EndsAt.Sub(a.StartsAt) <= maxActivitySpan, "body.ends_at", a.EndsAt,
		fault.T("An activity lasts 366 days at most.", "活动最长 366 天。"))
	f.add(a.LimitPerUser >= 1 && a.LimitPerUser <= maxLimitPerUser, "body.limit_per_user", a.LimitPerUser,
		fault.T("The limit per user is 1 to {most} units.", "每人限购为 1 至 {most}。", "most", maxLimitPerUser))
	window := time.Duration(a.PaymentWindowSeconds) * time.Second
	f.add(window >= minPayWindow && window <= maxPayWindow, "body.payment_window_seconds", a.PaymentWindowSeconds,
		fault.T("The payment window is 10 seconds to 7 days.", "付款时限为 10 秒至 7 天。"))
	f.add(!bothWindows, "body.payment_window_share", nil,
		fault.T("The payment window is a duration or a share of the session, not both.", "付款时限与按场次比例只能二选一。"))
	if s := a.PaymentWindowShare; s != nil {
		f.add(*s > 0 && *s <= 1 && !math.IsNaN(*s), "body.payment_window_share", *s,
			fault.T("The share is above 0 and at most 1 of the session's length.", "比例须大于 0、不超过 1。"))
	}
	f.checkout(&a.Checkout)
	f.activityDoor(a)
	f.refunds(a)
}

// moment refuses years that can only come from a wrong unit or a missing value.
func (f *flaws) moment(location string, t time.Time) {
	f.add(t.Year() >= 2000 && t.Year() < 2200, location, t, fault.T("The year must be 2000 to 2199.", "年份须为 2000 至 2199。"))
}

// createActivity creates a draft, with the sessions and items in the request.
func (s *Service) createActivity(ctx context.Context, key string, in activityDraft) (activityView, error) {
	var out activityView
	err := s.transact(ctx, func(ctx context.Context, c *change) (err error) {
		out, err = once(ctx, c, key, "activity.create", in, func() (activityView, error) { return c.createActivity(ctx, &in) })
		return err
	})
	return out, err
}

// createActivity inserts a draft with its sessions and items, all or nothing.
func (c *change) createActivity(ctx context.Context, in *activityDraft) (activityView, error) {
	row := seckilldb.SeckillActivity{
		Name: in.Name, StartsAt: in.StartsAt, EndsAt: in.EndsAt, LimitPerUser: in.LimitPerUser, OneItemPerUser: in.OneItemPerUser,
		PaymentWindowSeconds: optional(in.PaymentWindowSeconds, defaultPayWindowSeconds), PaymentWindowShare: in.PaymentWindowShare,
		RebuyAfterClose: optional(in.RebuyAfterClose, false), HumanCheck: in.HumanCheck, HumanCheckRate: in.HumanCheckRate, Exclusive: in.Exclusive,
		RefundWithinHours: in.RefundWithinHours, RefundUnits: cmp.Or(in.RefundUnits, refundReturns), Checkout: in.Checkout,
	}
	if row.HumanCheck == "" {
		row.HumanCheck = string(humancheck.None)
	}
	var f flaws
	f.activity(&row, in.PaymentWindowSeconds != nil && in.PaymentWindowShare != nil)
	f.markdown("body.rules", in.Rules)
	for i := range in.Sessions {
		f.sessionDraft(fmt.Sprintf("body.sessions[%d]", i), &in.Sessions[i], &row)
	}
	if err := f.err(); err != nil {
		return activityView{}, err
	}
	if err := c.insertActivity(ctx, &row); err != nil {
		return activityView{}, err
	}
	view := viewActivity(&c.activity)
	if err := c.record(ctx, "activity.create", activitySubject(c.activity.ID), created(view)); err != nil {
		return activityView{}, err
	}
	if in.Rules != "" {
		if err := c.putRules(ctx, activityRules{}, activityRules{in.Rules, 1}); err != nil {
			return activityView{}, err
		}
	}
	for i := range in.Sessions {
		session, err := c.insertDraft(ctx, fmt.Sprintf("body.sessions[%d]", i), &in.Sessions[i])
		if err != nil {
			return activityView{}, err
		}
		view.Sessions = append(view.Sessions, session)
	}
	return view, nil
}

// insertActivity writes a checked activity as a draft and makes it the activity
// of the rest of this change. It ignores the row's counters; of a row that has an id
// the rules in words are copied.
func (c *change) insertActivity(ctx context.Context, row *seckilldb.SeckillActivity) error {
	made, err := c.q.InsertActivity(ctx, seckilldb.InsertActivityParams{
		Name: row.Name, StartsAt: row.StartsAt, EndsAt: row.EndsAt, LimitPerUser: row.LimitPerUser, OneItemPerUser: row.OneItemPerUser,
		PaymentWindowSeconds: row.PaymentWindowSeconds, PaymentWindowShare: row.PaymentWindowShare, RebuyAfterClose: row.RebuyAfterClose,
		HumanCheck: row.HumanCheck, HumanCheckRate: row.HumanCheckRate, Exclusive: row.Exclusive,
		RefundWithinHours: row.RefundWithinHours, RefundUnits: row.RefundUnits, Checkout: row.Checkout,
	})
	if err != nil {
		return fmt.Errorf("seckill: insert activity: %w", err)
	}
	c.activity, c.phase = made, phaseDraft
	if row.ID != 0 {
		if err := c.q.CopyActivityRules(ctx, seckilldb.CopyActivityRulesParams{CopyID: made.ID, OriginalID: row.ID}); err != nil {
			return fmt.Errorf("seckill: copy activity rules: %w", err)
		}
	}
	return nil
}

// updateActivity writes an edited activity.
func (c *change) updateActivity(ctx context.Context, row *seckilldb.SeckillActivity) error {
	edited, err := c.q.UpdateActivity(ctx, seckilldb.UpdateActivityParams{
		ID: row.ID, Name: row.Name, StartsAt: row.StartsAt, EndsAt: row.EndsAt, LimitPerUser: row.LimitPerUser,
		OneItemPerUser: row.OneItemPerUser, PaymentWindowSeconds: row.PaymentWindowSeconds,
		PaymentWindowShare: row.PaymentWindowShare, RebuyAfterClose: row.RebuyAfterClose,
		HumanCheck: row.HumanCheck, HumanCheckRate: row.HumanCheckRate, Exclusive: row.Exclusive,
		RefundWithinHours: row.RefundWithinHours, RefundUnits: row.RefundUnits, Checkout: row.Checkout,
	})
	if err != nil {
		return fmt.Errorf("seckill: update activity: %w", err)
	}
	c.activity = edited
	return nil
}

// readActivity returns an activity with its sessions and items.
func (s *Service) readActivity(ctx context.Context, id int64) (activityView, error) {
	var out activityView
	err := s.snapshot(ctx, func(q *seckilldb.Queries) error {
		row, err := q.Activity(ctx, id)
		if err != nil {
			return orNotFound(err, errNoActivity, "read activity")
		}
		tree, err := readTree(ctx, q, []seckilldb.SeckillActivity{row})
		if err != nil {
			return err
		}
		out = tree[0].view()
		return nil
	})
	return out, err
}

// snapshot runs reads that must agree with each other in one read-only
// transaction.
func (s *Service) snapshot(ctx context.Context, fn func(q *seckilldb.Queries) error) error {
	return snapshot(ctx, s.deps.DB, fn)
}

func snapshot(ctx context.Context, db pg.Beginner, fn func(q *seckilldb.Queries) error) error {
	tx, err := db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return fmt.Errorf("seckill: begin snapshot: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // read-only
	return fn(seckilldb.New(tx))
}

// editActivity applies a patch to an activity.
func (s *Service) editActivity(ctx context.Context, id int64, in activityPatch) (activityView, error) {
	var out activityView
	err := s.transact(ctx, func(ctx context.Context, c *change) error {
		if err := c.lock(ctx, id, actAmend); err != nil {
			return err
		}
		view, err := c.editActivity(ctx, &in)
		out = view
		return err
	})
	return out, err
}

// editActivity applies a patch to an activity. An activity's rules also apply
// to its items, so its sessions are checked against them and its stock follows.
func (c *change) editActivity(ctx context.Context, in *activityPatch) (activityView, error) {
	if c.activity.Version != in.Version {
		return activityView{}, errStale(c.activity.Version)
	}
	before, row := c.activity, c.activity
	row.Name = optional(in.Name, row.Name)
	row.StartsAt = optional(in.StartsAt, row.StartsAt)
	row.EndsAt = optional(in.EndsAt, row.EndsAt)
	row.LimitPerUser = optional(in.LimitPerUser, row.LimitPerUser)
	row.OneItemPerUser = optional(in.OneItemPerUser, row.OneItemPerUser)
	row.RebuyAfterClose = optional(in.RebuyAfterClose, row.RebuyAfterClose)
	row.HumanCheck = optional(in.HumanCheck, row.HumanCheck)
	row.HumanCheckRate = optional(in.HumanCheckRate, row.HumanCheckRate)
	row.Exclusive = optional(in.Exclusive, row.Exclusive)
	row.RefundWithinHours = optional(in.RefundWithinHours, row.RefundWithinHours)
	row.RefundUnits = optional(in.RefundUnits, row.RefundUnits)
	row.Checkout = optional(in.Checkout, row.Checkout)
	if in.PaymentWindowSeconds != nil {
		row.PaymentWindowSeconds, row.PaymentWindowShare = *in.PaymentWindowSeconds, nil
	}
	if in.PaymentWindowShare != nil {
		row.PaymentWindowShare = in.PaymentWindowShare
	}
	tree, err := readTree(ctx, c.q, []seckilldb.SeckillActivity{row})
	if err != nil {
		return activityView{}, err
	}
	var f flaws
	f.activity(&row, in.PaymentWindowSeconds != nil && in.PaymentWindowShare != nil)
	if c.amends() {
		if err := c.amendActivity(&f, before, row); err != nil {
			return activityView{}, err
		}
	} else {
		f.spanHolds(&tree[0])
		if c.published() {
			c.payable(&f, &tree[0])
		}
	}
	if err := f.err(); err != nil {
		return activityView{}, err
	}
	if unchanged(viewActivity(&before), viewActivity(&row)) {
		return tree[0].view(), nil
	}
	if err := c.updateActivity(ctx, &row); err != nil {
		return activityView{}, err
	}
	row, c.announce = c.activity, c.published()
	after := branch{activity: row, sessions: tree[0].sessions}
	planned := (&branch{activity: before, sessions: tree[0].sessions}).stock()
	if err := c.restock(ctx, planned, after.stock()); err != nil {
		return activityView{}, err
	}
	return after.view(), c.record(ctx, "activity.edit", activitySubject(row.ID), edited(viewActivity(&before), viewActivity(&row)))
}

// deleteActivity removes an activity that no shopper could have bought from.
func (s *Service) deleteActivity(ctx context.Context, id int64) error {
	return s.transact(ctx, func(ctx context.Context, c *change) error {
		if err := c.lock(ctx, id, actDelete); err != nil {
			return err
		}
		tree, err := readTree(ctx, c.q, []seckilldb.SeckillActivity{c.activity})
		if err != nil {
			return err
		}
		if err := c.restock(ctx, tree[0].stock(), nil); err != nil {
			return err
		}
		if err := c.q.DeleteActivity(ctx, id); err != nil {
			return fmt.Errorf("seckill: delete activity: %w", err)
		}
		c.announce = c.published()
		c.logDeletion("activity", id)
		return c.record(ctx, "activity.delete", activitySubject(id), deleted(tree[0].view()))
	})
}

// activitySubject names an activity in the audit log.
func activitySubject(id int64) string { return fmt.Sprintf("activity %d", id) }

// edited is an edit in the audit log.
func edited(before, after any) audit.Change { return audit.Change{Before: before, After: after} }

// created is something new in the audit log.
func created(after any) audit.Change { return audit.Change{After: after} }

// deleted is something that is gone, in the audit log.
func deleted(before any) audit.Change { return audit.Change{Before: before} }

// unchanged reports whether an edit leaves everything in a row's view as it
// was. Such an edit keeps the version, so that it does not make other edits
// stale for no reason.
func unchanged(before, after any) bool {
	was, err := json.Marshal(before)
	if err != nil {
		return false
	}
	is, err := json.Marshal(after)
	return err == nil && bytes.Equal(was, is)
}
