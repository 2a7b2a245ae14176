package change

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"stampede/platform/edge/external"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/plan"
	"stampede/seckill/seckillevent"
)

// activityPatch changes only the fields it names.
type activityPatch struct {
	Version              int32                      `json:"version" minimum:"1" doc:"The version that was read; the edit is refused if the database has another one"`
	Name                 *string                    `json:"name,omitempty" doc:"1 to 120 characters"`
	StartsAt             *time.Time                 `json:"starts_at,omitempty" doc:"The earliest time a session may open"`
	EndsAt               *time.Time                 `json:"ends_at,omitempty" doc:"The activity ends here; no session closes later"`
	LimitPerUser         *int32                     `json:"limit_per_user,omitempty" minimum:"1" maximum:"1000" doc:"Units of one item that one user may hold"`
	OneItemPerUser       *bool                      `json:"one_item_per_user,omitempty" doc:"A user may hold one item of the activity only"`
	PaymentWindowSeconds *int32                     `json:"payment_window_seconds,omitempty" minimum:"10" maximum:"604800" doc:"Replaces a share"`
	PaymentWindowShare   *float64                   `json:"payment_window_share,omitempty" minimum:"0" maximum:"1" doc:"Replaces the duration"`
	RebuyAfterClose      *bool                      `json:"rebuy_after_close,omitempty" doc:"A user whose unpaid order was closed, or whose order was refunded, may buy again"`
	HumanCheck           *string                    `json:"human_check,omitempty" enum:"none,pow,slide,verifier" doc:"How a shopper proves to be a person before a rush path"`
	HumanCheckRate       *int32                     `json:"human_check_rate,omitempty" minimum:"0" maximum:"1000" doc:"A user who requests more paths a minute than this must pass a second check; 0 turns the second check off"`
	Exclusive            *bool                      `json:"exclusive,omitempty" doc:"A user takes part in one exclusive activity at a time"`
	RefundWithinHours    *int32                     `json:"refund_within_hours,omitempty" minimum:"0" maximum:"8760" doc:"How long after paying a shopper may return an order that is not completed; 0 is never"`
	RefundUnits          *string                    `json:"refund_units,omitempty" enum:"return,write_off" doc:"What becomes of the units of a refunded order unless an operator decides"`
	PointsRate           *int32                     `json:"points_rate,omitempty" minimum:"0" maximum:"10000" doc:"Points that a shopper earns for each 100 minor units paid, such as 1 for each yuan; rounded down for an order, 0 is none"`
	Checkout             *seckillevent.CheckoutView `json:"checkout,omitempty" doc:"Replaces the whole of it"`
	external.Patch
}

// createActivity inserts a draft with its sessions and items, all or nothing.
func createActivity(ctx context.Context, c *change, in plan.ActivityDraft) (plan.ActivityView, error) {
	row := in.Row()
	var f plan.Flaws
	f.Activity(&row, in.PaymentWindowSeconds != nil && in.PaymentWindowShare != nil)
	f.Markdown("body.rules", in.Rules)
	for i := range in.Sessions {
		f.SessionDraft(fmt.Sprintf("body.sessions[%d]", i), &in.Sessions[i], &row)
	}
	if err := f.Err(); err != nil {
		return plan.ActivityView{}, err
	}
	if err := c.insertActivity(ctx, row); err != nil {
		return plan.ActivityView{}, taken(err, "body", row.ExternalID)
	}
	view := plan.ViewActivity(&c.activity)
	if err := c.record(ctx, "activity.create", plan.ActivitySubject(c.activity.ID), created(view)); err != nil {
		return plan.ActivityView{}, err
	}
	if in.Rules != "" {
		if err := c.putRules(ctx, plan.ActivityRules{}, plan.ActivityRules{Rules: in.Rules, Version: 1}); err != nil {
			return plan.ActivityView{}, err
		}
	}
	for i := range in.Sessions {
		session, err := c.insertDraft(ctx, fmt.Sprintf("body.sessions[%d]", i), &in.Sessions[i])
		if err != nil {
			return plan.ActivityView{}, err
		}
		view.Sessions = append(view.Sessions, session)
	}
	return view, nil
}

// insertActivity writes a checked activity as a draft and makes it the activity
// of the rest of this change. Of a row that has an id the rules in words are copied.
func (c *change) insertActivity(ctx context.Context, row seckilldb.SeckillActivity) error {
	original := row.ID
	row.ID, row.Status, row.Paused, row.Version = 0, plan.StatusDraft, false, 1
	if err := c.putActivity(ctx, row); err != nil {
		return err
	}
	c.phase = plan.PhaseDraft
	if original != 0 {
		if err := c.q.CopyActivityRules(ctx, seckilldb.CopyActivityRulesParams{CopyID: c.activity.ID, OriginalID: original}); err != nil {
			return fmt.Errorf("change: copy activity rules: %w", err)
		}
	}
	return nil
}

// putActivity writes an activity and makes it the activity of the rest of this change.
func (c *change) putActivity(ctx context.Context, row seckilldb.SeckillActivity) (err error) {
	c.activity, err = c.q.PutActivity(ctx, seckilldb.PutActivityParams{
		ID: row.ID, Name: row.Name, Status: row.Status, StartsAt: row.StartsAt, EndsAt: row.EndsAt, LimitPerUser: row.LimitPerUser,
		OneItemPerUser: row.OneItemPerUser, PaymentWindowSeconds: row.PaymentWindowSeconds, PaymentWindowShare: row.PaymentWindowShare,
		RebuyAfterClose: row.RebuyAfterClose, Paused: row.Paused, Version: row.Version, HumanCheck: row.HumanCheck, HumanCheckRate: row.HumanCheckRate,
		Exclusive: row.Exclusive, RefundWithinHours: row.RefundWithinHours, RefundUnits: row.RefundUnits, Checkout: row.Checkout,
		ExternalID: row.ExternalID, Metadata: row.Metadata, PointsRate: row.PointsRate,
	})
	if err != nil {
		return fmt.Errorf("change: put activity: %w", err)
	}
	return nil
}

// editActivity applies a patch to an activity. An activity's rules also apply
// to its items, so its sessions are checked against them and its stock follows.
func editActivity(ctx context.Context, c *change, id int64, in activityPatch) (plan.ActivityView, error) {
	if err := c.lock(ctx, id, plan.ActEditOrCorrect); err != nil {
		return plan.ActivityView{}, err
	}
	if c.activity.Version != in.Version {
		return plan.ActivityView{}, plan.ErrStale(c.activity.Version)
	}
	before, row := c.activity, c.activity
	row.Name = pg.ValueOr(in.Name, row.Name)
	row.StartsAt = pg.ValueOr(in.StartsAt, row.StartsAt)
	row.EndsAt = pg.ValueOr(in.EndsAt, row.EndsAt)
	row.LimitPerUser = pg.ValueOr(in.LimitPerUser, row.LimitPerUser)
	row.OneItemPerUser = pg.ValueOr(in.OneItemPerUser, row.OneItemPerUser)
	row.RebuyAfterClose = pg.ValueOr(in.RebuyAfterClose, row.RebuyAfterClose)
	row.HumanCheck = pg.ValueOr(in.HumanCheck, row.HumanCheck)
	row.HumanCheckRate = pg.ValueOr(in.HumanCheckRate, row.HumanCheckRate)
	row.Exclusive = pg.ValueOr(in.Exclusive, row.Exclusive)
	row.RefundWithinHours = pg.ValueOr(in.RefundWithinHours, row.RefundWithinHours)
	row.RefundUnits = pg.ValueOr(in.RefundUnits, row.RefundUnits)
	row.PointsRate = pg.ValueOr(in.PointsRate, row.PointsRate)
	if in.Checkout != nil {
		row.Checkout = in.Checkout.Checkout()
	}
	in.Apply(&row.ExternalID, &row.Metadata)
	if in.PaymentWindowSeconds != nil {
		row.PaymentWindowSeconds, row.PaymentWindowShare = *in.PaymentWindowSeconds, nil
	}
	if in.PaymentWindowShare != nil {
		row.PaymentWindowShare = in.PaymentWindowShare
	}
	tree, err := plan.Tree(ctx, c.q, row)
	if err != nil {
		return plan.ActivityView{}, err
	}
	var f plan.Flaws
	f.Activity(&row, in.PaymentWindowSeconds != nil && in.PaymentWindowShare != nil)
	if c.onlyCorrections() {
		if err := c.correctActivity(&f, before, row); err != nil {
			return plan.ActivityView{}, err
		}
	} else {
		f.SpanHolds(tree)
		if c.published() {
			f = append(f, tree.Payable(c.s.cfg)...)
		}
	}
	if err := f.Err(); err != nil {
		return plan.ActivityView{}, err
	}
	if unchanged(plan.ViewActivity(&before), plan.ViewActivity(&row)) {
		return tree.View(), nil
	}
	if err := writeActivity(ctx, c, row); err != nil {
		return plan.ActivityView{}, taken(err, "body", row.ExternalID)
	}
	c.announce = c.published()
	after := plan.Activity{SeckillActivity: c.activity, Sessions: tree.Sessions}
	planned := (&plan.Activity{SeckillActivity: before, Sessions: tree.Sessions}).Stock()
	return after.View(), c.restock(ctx, planned, after.Stock())
}

// writeActivity writes an edit of the activity of this change.
func writeActivity(ctx context.Context, c *change, row seckilldb.SeckillActivity) error {
	before := plan.ViewActivity(&c.activity)
	row.Version++
	if err := c.putActivity(ctx, row); err != nil {
		return err
	}
	return c.record(ctx, "activity.edit", plan.ActivitySubject(row.ID), edited(before, plan.ViewActivity(&c.activity)))
}

// deleteActivity removes an activity that no shopper could have bought from.
func deleteActivity(ctx context.Context, c *change, id int64) error {
	tree, err := c.lockTree(ctx, id, plan.ActDelete)
	if err != nil {
		return err
	}
	if err := c.restock(ctx, tree.Stock(), nil); err != nil {
		return err
	}
	if err := c.q.DeleteActivity(ctx, id); err != nil {
		return fmt.Errorf("change: delete activity: %w", err)
	}
	c.announce = c.published()
	return c.record(ctx, "activity.delete", plan.ActivitySubject(id), deleted(tree.View()))
}

// edited is an edit in the audit log.
func edited(before, after any) audit.Change { return audit.Change{Before: before, After: after} }

func created(after any) audit.Change { return audit.Change{After: after} }

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
