package seckill

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"

	"stampede/inventory"
	"stampede/platform/base/fault"
	"stampede/platform/identity/humancheck"
	"stampede/platform/watch/preflight"
	"stampede/seckill/internal/seckilldb"
)

// publish shows a draft to shoppers. It creates the items' stock rows together
// with the new status, so that a scheduled activity without stock cannot exist.
// What the plan lacks refuses it. The rest of the preflight runs after the commit and
// only advises: a server can be put right until the opening, which may be weeks away.
func (s *Service) publish(ctx context.Context, id int64) (activityView, error) {
	plan := planned{s: s}
	out, err := s.act(ctx, id, actPublish, func(ctx context.Context, c *change, b *branch) error {
		plan.branch, plan.at = *b, c.at
		if err := c.publishable(b).err(); err != nil {
			return err
		}
		for _, n := range b.stock() {
			if err := s.deps.Stock.Create(ctx, c.tx, n); err != nil {
				return fmt.Errorf("seckill: create stock of item %d: %w", n.ID, err)
			}
		}
		return c.setStatus(ctx, statusScheduled)
	})
	if err == nil && !plan.at.IsZero() {
		found := plan.preflight(ctx, 0)
		found.Lines = slices.DeleteFunc(found.Lines, func(l preflight.Line) bool { return l.Level == preflight.OK })
		out.Preflight = &found
	}
	return out, err
}

// publishable lists what prevents a draft from being published.
func (c *change) publishable(b *branch) flaws {
	f := c.complete(b)
	c.payable(&f, b)
	return f
}

// complete lists what the plan itself lacks.
func (c *change) complete(b *branch) flaws {
	var f flaws
	f.add(len(b.sessions) > 0, "sessions", nil,
		fault.T("An activity needs a session before it is published.", "发布前至少需要一个场次。"))
	items := 0
	for i := range b.sessions {
		t := &b.sessions[i]
		location := sessionSubject(t.session.ID)
		items += len(t.items)
		f.add(len(t.items) > 0, location, nil,
			fault.T(`Session "{name}" has no item.`, "场次“{name}”没有商品。", "name", t.session.Name))
		f.add(t.session.ClosesAt.After(c.at), location, t.session.ClosesAt,
			fault.T(`Session "{name}" is already over.`, "场次“{name}”已经结束。", "name", t.session.Name))
	}
	f.add(items <= maxItemsPerActivity, "sessions", items,
		fault.T("An activity has {most} items at most.", "一个活动最多 {most} 件商品。", "most", maxItemsPerActivity))
	f.add(b.activity.HumanCheck != string(humancheck.Verifier) || c.s.cfg.Verifier, "human_check", b.activity.HumanCheck,
		fault.T("No verifier is set up on this server: choose another human check, or start the server with "+
			"--verifier-url.",
			"服务器未配置第三方人机验证，请选择其他验证方式。"))
	return f
}

// payable refuses prices that shoppers could not pay on this server, and
// payment windows that a provider in use cannot keep. It is checked at
// publication and at every edit after it.
func (c *change) payable(f *flaws, b *branch) {
	currency := ""
	for i := range b.sessions {
		session := &b.sessions[i].session
		for j := range b.sessions[i].items {
			item := &b.sessions[i].items[j]
			free := item.SalePrice == 0 && b.activity.Checkout.Freight == 0
			f.add(b.activity.Checkout.Freight == 0 || currency == "" || item.Currency == currency, inventory.ItemSubject(item.ID), item.Currency,
				fault.T(`The freight is one amount for all items of the activity, so they need one currency; "{item}" has another than those before it.`,
					"运费对整个活动统一收取，商品须为同一货币：“{item}”与前面的不同。", "item", item.Title))
			currency = item.Currency
			f.add(free || c.s.cfg.CanPay, inventory.ItemSubject(item.ID), item.SalePrice,
				fault.T(`No payment provider is set up on this server, so shoppers could not pay for "{item}": give it a sale price of 0 and its activity no freight, or start the server with a provider (--sandbox-bank for testing).`,
					"服务器未配置支付渠道，顾客无法支付“{item}”：请配置支付渠道，或将价格与运费设为 0。", "item", item.Title))
		}
		window := payWindow(&b.activity, session)
		f.add(window >= c.s.cfg.ShortestPayWindow, sessionSubject(session.ID), window.String(),
			fault.T(`A payment provider in use needs {least} to take a payment; the window of session "{session}" is {window}.`,
				"支付渠道要求付款时限至少 {least}，场次“{session}”为 {window}。",
				"least", c.s.cfg.ShortestPayWindow, "session", session.Name, "window", window))
	}
}

// pause makes the activity refuse new rushes until it is resumed.
func (s *Service) pause(ctx context.Context, id int64) (activityView, error) {
	return s.act(ctx, id, actPause, func(ctx context.Context, c *change, b *branch) error { return c.setPaused(ctx, b, true) })
}

// resume ends a pause.
func (s *Service) resume(ctx context.Context, id int64) (activityView, error) {
	return s.act(ctx, id, actResume, func(ctx context.Context, c *change, b *branch) error { return c.setPaused(ctx, b, false) })
}

func (c *change) setPaused(ctx context.Context, b *branch, paused bool) error {
	row, err := c.q.SetActivityPaused(ctx, seckilldb.SetActivityPausedParams{ID: c.activity.ID, Paused: paused})
	if err != nil {
		return fmt.Errorf("seckill: set paused: %w", err)
	}
	c.activity, b.activity = row, row
	// An item that was paused by itself stays paused.
	return c.changeStock(ctx, b, func(n inventory.NewStock) (inventory.Change, bool) { return inventory.Change{Paused: &n.Paused}, true })
}

// terminate ends the activity permanently. The windows of its items close now,
// in the database and then in Redis. An item that never opened has no window to
// close, so it is paused permanently. Grants that are already queued are still
// written and stay payable.
func (s *Service) terminate(ctx context.Context, id int64) (activityView, error) {
	return s.act(ctx, id, actTerminate, func(ctx context.Context, c *change, b *branch) error {
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
		return c.setStatus(ctx, statusTerminated)
	})
}

// act carries out one transition of an activity, with its audit record. An
// activity that is already in the requested state is returned unchanged;
// nothing is recorded or announced, because nothing happens.
func (s *Service) act(ctx context.Context, id int64, act action, fn func(ctx context.Context, c *change, b *branch) error) (activityView, error) {
	var out activityView
	err := s.transact(ctx, func(ctx context.Context, c *change) error {
		if err := c.take(ctx, id); err != nil {
			return err
		}
		tree, err := readTree(ctx, c.q, []seckilldb.SeckillActivity{c.activity})
		if err != nil {
			return err
		}
		if already(c.phase, c.activity.Paused, act) {
			out = tree[0].view()
			return nil
		}
		if err := permit(c.phase, c.activity.Paused, act); err != nil {
			return err
		}
		was := stateOf(&c.activity)
		if err := fn(ctx, c, &tree[0]); err != nil {
			return err
		}
		c.announce = true
		c.did = []slog.Attr{slog.String("action", string(act)), slog.Int64("activity_id", id)}
		tree[0].activity = c.activity
		out = tree[0].view()
		return c.record(ctx, "activity."+string(act), activitySubject(id), edited(was, stateOf(&c.activity)))
	})
	return out, err
}

// activityState is what a transition changes, in the form that the audit log keeps.
type activityState struct {
	Status string `json:"status"`
	Paused bool   `json:"paused"`
}

func stateOf(a *seckilldb.SeckillActivity) activityState { return activityState{a.Status, a.Paused} }

func (c *change) setStatus(ctx context.Context, status string) error {
	row, err := c.q.SetActivityStatus(ctx, seckilldb.SetActivityStatusParams{ID: c.activity.ID, Status: status})
	if err != nil {
		return fmt.Errorf("seckill: set status %s: %w", status, err)
	}
	c.activity = row
	return nil
}

// changeStock changes the stock rows of the activity's items and records them
// to be applied to Redis. It takes items in the order of their ids, like all
// code that locks stock rows.
func (c *change) changeStock(ctx context.Context, b *branch, how func(inventory.NewStock) (inventory.Change, bool)) error {
	all := b.stock()
	slices.SortFunc(all, func(x, y inventory.NewStock) int { return cmp.Compare(x.ID, y.ID) })
	for _, n := range all {
		ch, wanted := how(n)
		if !wanted {
			continue
		}
		if err := c.s.deps.Stock.Change(ctx, c.tx, n.ID, ch); err != nil {
			return fmt.Errorf("seckill: change stock of item %d: %w", n.ID, err)
		}
		c.apply = append(c.apply, n.ID)
	}
	return nil
}
