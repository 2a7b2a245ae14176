package seckill

import (
	"context"
	"fmt"
	"time"

	"stampede/inventory"
	"stampede/seckill/internal/seckilldb"
)

// branch is one activity with everything below it.
type branch struct {
	activity seckilldb.SeckillActivity
	sessions []twig
}

// twig is one session with its items.
type twig struct {
	session seckilldb.SeckillSession
	items   []seckilldb.SeckillItem
}

// readTree reads the sessions and items of activities with two queries,
// however many there are.
func readTree(ctx context.Context, q *seckilldb.Queries, activities []seckilldb.SeckillActivity) ([]branch, error) {
	ids := make([]int64, len(activities))
	tree := make([]branch, len(activities))
	at := make(map[int64]int, len(activities))
	for i := range activities {
		ids[i], tree[i].activity, at[activities[i].ID] = activities[i].ID, activities[i], i
	}
	sessions, err := q.SessionsOf(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("seckill: read sessions: %w", err)
	}
	items, err := q.ItemsOf(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("seckill: read items: %w", err)
	}
	under := make(map[int64][]seckilldb.SeckillItem, len(sessions))
	for i := range items {
		under[items[i].SessionID] = append(under[items[i].SessionID], items[i])
	}
	for i := range sessions {
		b := &tree[at[sessions[i].ActivityID]]
		b.sessions = append(b.sessions, twig{session: sessions[i], items: under[sessions[i].ID]})
	}
	return tree, nil
}

// stock is the stock that inventory should have for every item of the activity.
func (b *branch) stock() []inventory.NewStock {
	var all []inventory.NewStock
	for i := range b.sessions {
		t := &b.sessions[i]
		for j := range t.items {
			all = append(all, newStock(&b.activity, &t.session, &t.items[j]))
		}
	}
	return all
}

// firstOpening is when the activity starts to run; the zero time if it has no
// session.
func (b *branch) firstOpening() time.Time {
	var first time.Time
	for i := range b.sessions {
		if at := b.sessions[i].session.OpensAt; i == 0 || at.Before(first) {
			first = at
		}
	}
	return first
}

// session finds a session of the activity by its id.
func (b *branch) session(id int64) (*twig, bool) {
	for i := range b.sessions {
		if b.sessions[i].session.ID == id {
			return &b.sessions[i], true
		}
	}
	return nil, false
}

// userLimit is how many units of the item one user may hold: the smaller of the
// activity's and the item's limits.
func userLimit(a *seckilldb.SeckillActivity, i *seckilldb.SeckillItem) int32 {
	if i.LimitPerUser != nil && *i.LimitPerUser < a.LimitPerUser {
		return *i.LimitPerUser
	}
	return a.LimitPerUser
}

// payWindow is how long an order of the session may stay unpaid.
func payWindow(a *seckilldb.SeckillActivity, s *seckilldb.SeckillSession) time.Duration {
	if a.PaymentWindowShare == nil {
		return time.Duration(a.PaymentWindowSeconds) * time.Second
	}
	share := time.Duration(*a.PaymentWindowShare * float64(s.ClosesAt.Sub(s.OpensAt)))
	// Publication refuses shares below the minimum; the maximum makes a session of several weeks free its
	// units in time.
	return min(max(share.Truncate(time.Second), minPayWindow), maxPayWindow)
}

// mayRebuy is whether a user may buy the item again after an unpaid order of it
// was closed. Where units are unlimited, holding them keeps none from others.
func mayRebuy(a *seckilldb.SeckillActivity, i *seckilldb.SeckillItem) bool {
	return a.RebuyAfterClose || i.Unlimited
}

// paused is whether no attempt at the item is taken.
func paused(a *seckilldb.SeckillActivity, i *seckilldb.SeckillItem) bool { return a.Paused || i.Paused }

// newStock is the stock row that inventory should have for an item.
func newStock(a *seckilldb.SeckillActivity, s *seckilldb.SeckillSession, i *seckilldb.SeckillItem) inventory.NewStock {
	return inventory.NewStock{
		Item:  inventory.Item{ID: i.ID, ActivityID: a.ID, PerActivity: a.OneItemPerUser},
		Total: unitsOnSale(i), Backup: i.Backup, Unlimited: i.Unlimited, UserLimit: userLimit(a, i), Rebuy: mayRebuy(a, i),
		OpensAt: s.OpensAt, ClosesAt: s.ClosesAt, Paused: paused(a, i),
	}
}
