package seckill

import (
	"context"
	"fmt"

	"stampede/inventory"
	"stampede/seckill/internal/seckilldb"
)

// What can still be corrected from 60 s before the first opening until the end. The
// rest stays as shoppers saw it when they decided to come.
const (
	amendsActivity = "From 60 s before the opening its name can be corrected and ends_at moved later; its other fields stay."
	amendsSession  = "From 60 s before the opening its name can be corrected and closes_at moved later while it is open; its other fields stay."
	amendsItem     = "From 60 s before the opening its title, spec and image_url can be corrected; its other fields stay."
)

// amends reports that it is too late for any edit but a correction.
func (c *change) amends() bool { return permit(c.phase, c.activity.Paused, actEdit) != nil }

// tooLate refuses an edit beyond a correction, and says what a correction is.
func (c *change) tooLate(amends string) error {
	refusal := errNotEditable
	if c.phase == phaseFrozen {
		refusal = errFrozen
	}
	return refusal.Saying(possibleSentence(c.phase, c.activity.Paused)+" "+amends).With("possible", possible(c.phase, c.activity.Paused))
}

// amendActivity checks that an edit of a running activity is a correction.
func (c *change) amendActivity(f *flaws, before, row seckilldb.SeckillActivity) error {
	f.add(!row.EndsAt.Before(before.EndsAt), "body.ends_at", row.EndsAt, "The end can only move later now; to stop the sale, pause or terminate it.")
	// Shoppers of an exclusive activity are bound to it until the end that it had when they came.
	f.add(!row.Exclusive || row.EndsAt.Equal(before.EndsAt), "body.ends_at", row.EndsAt,
		"An exclusive activity keeps its end, because its shoppers can take part in another one from then on; extend its sessions up to ends_at.")
	row.Name, row.EndsAt = before.Name, before.EndsAt
	if !unchanged(viewActivity(&before), viewActivity(&row)) {
		return c.tooLate(amendsActivity)
	}
	return nil
}

// amendSession does the same for a session, whose stock rows follow its end.
func (c *change) amendSession(f *flaws, before, row seckilldb.SeckillSession) error {
	f.add(!row.ClosesAt.Before(before.ClosesAt), "body.closes_at", row.ClosesAt, "The end can only move later now; to stop the sale, pause or terminate it.")
	f.add(row.ClosesAt.Equal(before.ClosesAt) || before.ClosesAt.After(c.at), "body.closes_at", row.ClosesAt,
		"The session is over, and its items may be settled; clone the activity to sell on.")
	row.Name, row.ClosesAt = before.Name, before.ClosesAt
	if !unchanged(viewSession(&before), viewSession(&row)) {
		return c.tooLate(amendsSession)
	}
	return nil
}

// extendStock moves the end of a session's items, in Postgres and after the commit
// in Redis. The items are few, and their order is that of their ids.
func (c *change) extendStock(ctx context.Context, t *twig, row *seckilldb.SeckillSession) error {
	if row.ClosesAt.Equal(t.session.ClosesAt) {
		return nil
	}
	for i := range t.items {
		id := t.items[i].ID
		if err := c.s.deps.Stock.Change(ctx, c.tx, id, inventory.Change{ClosesAt: &row.ClosesAt}); err != nil {
			return fmt.Errorf("seckill: extend the sale of item %d: %w", id, err)
		}
		c.apply = append(c.apply, id)
	}
	return nil
}

// amendItem does the same for an item.
func (c *change) amendItem(before, row seckilldb.SeckillItem) error {
	row.Title, row.Spec, row.ImageUrl = before.Title, before.Spec, before.ImageUrl
	if !unchanged(viewItem(&before), viewItem(&row)) {
		return c.tooLate(amendsItem)
	}
	return nil
}
