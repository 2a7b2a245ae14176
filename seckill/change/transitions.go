package change

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"stampede/inventory"
	"stampede/platform/watch/preflight"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/plan"
)

// publish shows a draft to shoppers. It creates the items' stock rows together
// with the new status, so that a scheduled activity without stock cannot exist.
// What the plan lacks refuses it. The rest of the preflight runs after the commit and
// only advises: a server can be put right until the opening, which may be weeks away.
func (s *Service) publish(ctx context.Context, id int64) (plan.ActivityView, error) {
	var out plan.ActivityView
	var draft *plan.Activity // nil if it was published before
	var at time.Time
	err := s.transact(ctx, func(ctx context.Context, c *change) (err error) {
		out, err = c.transition(ctx, id, plan.ActPublish, func(b *plan.Activity) error {
			draft, at = new(*b), c.at
			return show(ctx, c, b)
		})
		return err
	})
	if err == nil && draft != nil {
		out.Preflight = s.advice(ctx, draft, at)
	}
	return out, err
}

// show publishes a draft.
func show(ctx context.Context, c *change, b *plan.Activity) error {
	if f := append(b.Complete(c.s.cfg, c.at), b.Payable(c.s.cfg)...); len(f) > 0 {
		return f.Err()
	}
	for _, n := range b.Stock() {
		if err := c.s.deps.Stock.Create(ctx, c.tx, n); err != nil {
			return fmt.Errorf("change: create stock of item %d: %w", n.ID, err)
		}
	}
	return c.setState(ctx, plan.StatusScheduled, c.activity.Paused)
}

// advice is the preflight of a plan without what is in order.
func (s *Service) advice(ctx context.Context, b *plan.Activity, at time.Time) *plan.PreflightView {
	found := s.deps.Readiness.Preflight(ctx, b, at, 0)
	found.Lines = slices.DeleteFunc(found.Lines, func(l preflight.Line) bool { return l.Level == preflight.OK })
	return &found
}

// pause makes the activity refuse new rushes until it is resumed.
func pause(ctx context.Context, c *change, id int64) (plan.ActivityView, error) {
	return c.transition(ctx, id, plan.ActPause, func(b *plan.Activity) error { return c.setPaused(ctx, b, true) })
}

func resume(ctx context.Context, c *change, id int64) (plan.ActivityView, error) {
	return c.transition(ctx, id, plan.ActResume, func(b *plan.Activity) error { return c.setPaused(ctx, b, false) })
}

func (c *change) setPaused(ctx context.Context, b *plan.Activity, paused bool) error {
	if err := c.setState(ctx, c.activity.Status, paused); err != nil {
		return err
	}
	b.SeckillActivity = c.activity
	// An item that was paused by itself stays paused.
	return c.changeStock(ctx, b, func(n inventory.NewStock) (inventory.Change, bool) { return inventory.Change{Paused: &n.Paused}, true })
}

// terminate ends the activity permanently. The windows of its items close now,
// in the database and then in Redis. An item that never opened has no window to
// close, so it is paused permanently. Grants that are already queued are still
// written and stay payable.
func terminate(ctx context.Context, c *change, id int64) (plan.ActivityView, error) {
	return c.transition(ctx, id, plan.ActTerminate, func(b *plan.Activity) error {
		err := c.changeStock(ctx, b, func(n inventory.NewStock) (inventory.Change, bool) {
			if n.OpensAt.Before(c.at) {
				// A window that has closed keeps its recorded end.
				return inventory.Change{ClosesAt: &c.at}, n.ClosesAt.After(c.at)
			}
			forGood := true
			return inventory.Change{Paused: &forGood}, true
		})
		if err != nil {
			return err
		}
		return c.setState(ctx, plan.StatusTerminated, c.activity.Paused)
	})
}

// transition carries out one transition of an activity, with its audit record. An
// activity that is already in the requested state is returned unchanged;
// nothing is recorded or announced, because nothing happens.
func (c *change) transition(ctx context.Context, id int64, act plan.Action, do func(*plan.Activity) error) (plan.ActivityView, error) {
	if err := c.take(ctx, id); err != nil {
		return plan.ActivityView{}, err
	}
	tree, err := plan.Tree(ctx, c.q, c.activity)
	if err != nil {
		return plan.ActivityView{}, err
	}
	if plan.Already(c.phase, c.activity.Paused, act) {
		return tree.View(), nil
	}
	if err := plan.Permit(c.phase, c.activity.Paused, act); err != nil {
		return plan.ActivityView{}, err
	}
	was := stateOf(&c.activity)
	if err := do(tree); err != nil {
		return plan.ActivityView{}, err
	}
	c.announce = true
	tree.SeckillActivity = c.activity
	return tree.View(), c.record(ctx, "activity."+string(act), plan.ActivitySubject(id), edited(was, stateOf(&c.activity)))
}

// activityState is what a transition changes, in the form that the audit log keeps.
type activityState struct {
	Status string `json:"status"`
	Paused bool   `json:"paused"`
}

func stateOf(a *seckilldb.SeckillActivity) activityState { return activityState{a.Status, a.Paused} }

func (c *change) setState(ctx context.Context, status string, paused bool) (err error) {
	c.activity, err = c.q.SetActivityState(ctx, seckilldb.SetActivityStateParams{ID: c.activity.ID, Status: status, Paused: paused})
	if err != nil {
		return fmt.Errorf("change: set activity state: %w", err)
	}
	return nil
}

// changeStock changes the stock rows of the activity's items and records them
// to be applied to Redis. It takes items in the order of their ids, like all
// code that locks stock rows.
func (c *change) changeStock(ctx context.Context, b *plan.Activity, how func(inventory.NewStock) (inventory.Change, bool)) error {
	all := b.Stock()
	slices.SortFunc(all, func(x, y inventory.NewStock) int { return cmp.Compare(x.ID, y.ID) })
	for _, n := range all {
		ch, wanted := how(n)
		if !wanted {
			continue
		}
		if err := c.s.deps.Stock.Change(ctx, c.tx, n.ID, ch); err != nil {
			return fmt.Errorf("change: change stock of item %d: %w", n.ID, err)
		}
		c.apply = append(c.apply, n.ID)
	}
	return nil
}
