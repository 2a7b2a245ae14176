package change

import (
	"context"
	"fmt"

	"stampede/inventory"
)

// restock brings inventory from the stock planned before an edit to the stock
// planned after it, and requests a Load of every changed item: Redis may hold
// the item since its preheat. Before publication there is no stock to update.
//
// The edit happens at least plan.FreezeBefore ahead of the opening, so no user holds
// a unit yet and the Load has that long to finish.
func (c *change) restock(ctx context.Context, before, after []inventory.NewStock) error {
	if !c.published() {
		return nil
	}
	planned := make(map[int64]inventory.NewStock, len(before))
	for _, n := range before {
		planned[n.ID] = n
	}
	for _, n := range after {
		old, existed := planned[n.ID]
		delete(planned, n.ID)
		var err error
		switch {
		case !existed:
			err = c.s.deps.Stock.Create(ctx, c.tx, n)
		case sameStock(old, n):
			continue
		case old.PerActivity != n.PerActivity || old.Unlimited != n.Unlimited || n.Total < old.Total || n.Backup != old.Backup:
			// This never happens to an item on sale: it renames the item's keys or changes how they count, or
			// removes units that users could already hold.
			err = c.recreate(ctx, old, n)
		default:
			err = c.s.deps.Stock.Change(ctx, c.tx, n.ID, stockChange(old, n))
		}
		if err != nil {
			return fmt.Errorf("change: restock item %d: %w", n.ID, err)
		}
		c.load = append(c.load, n.ID)
	}
	for _, n := range before {
		if _, gone := planned[n.ID]; !gone {
			continue
		}
		if err := c.s.deps.Stock.Delete(ctx, c.tx, []int64{n.ID}); err != nil {
			return fmt.Errorf("change: drop stock of item %d: %w", n.ID, err)
		}
		c.forget = append(c.forget, n.Item)
	}
	return nil
}

// recreate replaces the stock row. What Redis holds under the old rules is
// deleted after the commit, so that the item is fenced until it is loaded.
func (c *change) recreate(ctx context.Context, old, n inventory.NewStock) error {
	if err := c.s.deps.Stock.Delete(ctx, c.tx, []int64{n.ID}); err != nil {
		return err
	}
	c.forget = append(c.forget, old.Item)
	return c.s.deps.Stock.Create(ctx, c.tx, n)
}

func sameStock(a, b inventory.NewStock) bool {
	return a.Item == b.Item && a.Total == b.Total && a.Backup == b.Backup && a.Unlimited == b.Unlimited && a.UserLimit == b.UserLimit &&
		a.Rebuy == b.Rebuy && a.OpensAt.Equal(b.OpensAt) && a.ClosesAt.Equal(b.ClosesAt)
}

// stockChange computes the change that turns one plan into another.
func stockChange(old, n inventory.NewStock) inventory.Change {
	var ch inventory.Change
	if added := n.Total - old.Total; added != 0 {
		ch.AddStock = &added
	}
	if n.UserLimit != old.UserLimit {
		ch.UserLimit = &n.UserLimit
	}
	if n.Rebuy != old.Rebuy {
		ch.Rebuy = &n.Rebuy
	}
	if !n.OpensAt.Equal(old.OpensAt) {
		ch.OpensAt = &n.OpensAt
	}
	if !n.ClosesAt.Equal(old.ClosesAt) {
		ch.ClosesAt = &n.ClosesAt
	}
	return ch
}
