package inventory

import (
	"context"
	"fmt"

	"stampede/platform/base/ids"
	"stampede/platform/watch/proof"
)

// Checks prove that nothing was oversold (I1), that Redis and Postgres agree on
// every unit and no item is stuck (I2), and that no mark in Redis lacks a live
// number (I8).
func (s *Service) Checks() []proof.Check {
	return []proof.Check{
		{ID: "I1", Name: "never oversold", Run: func(ctx context.Context) ([]proof.Violation, error) {
			orphans, err := s.withoutStock(ctx)
			if err != nil {
				return nil, err
			}
			found, err := s.prove(ctx, (*cut).oversold)
			return append(orphans, found...), err
		}},
		{ID: "I2", Name: "nothing stuck", Run: func(ctx context.Context) ([]proof.Violation, error) {
			return s.prove(ctx, (*cut).disagreements)
		}},
		{ID: "I2", Name: "every item on sale decides", Run: s.checkDeciding},
		{ID: "I2", Name: "settled items have left Redis", Run: s.checkSettled},
		{ID: "I8", Name: "no orphan in Redis", Run: func(ctx context.Context) ([]proof.Violation, error) {
			return s.prove(ctx, (*cut).orphans)
		}},
	}
}

// oversold is I1 for the sums in Postgres. Kinds are within the item.
func (r BookRow) oversold() (found []finding) {
	lives := r.Held + r.Sold
	if !r.Unlimited && lives > r.Total {
		found = append(found, finding{kind: "live", detail: fmt.Sprintf("%d units are in live orders, the total is %d.", lives, r.Total)})
	}
	if !r.Unlimited && r.Available < 0 {
		found = append(found, finding{kind: "available", detail: fmt.Sprintf("%d units are available.", r.Available)})
	}
	if sum := r.Available + lives + r.Backup + r.WrittenOff; sum != r.Total {
		found = append(found, finding{kind: "equation", detail: fmt.Sprintf(
			"available %d + held %d + sold %d + backup %d + written off %d = %d, the total is %d.",
			r.Available, r.Held, r.Sold, r.Backup, r.WrittenOff, sum, r.Total)})
	}
	return found
}

// retakesDiffer is the part of I1 about the backup: the units that left it are those
// of the orders that were taken up again, each once.
func (c *cut) retakesDiffer() (found []finding) {
	var counted, listed int64
	for _, st := range c.stocks {
		counted += int64(st.Retaken)
	}
	for _, units := range c.retaken {
		listed += int64(units)
	}
	if counted != listed {
		found = append(found, about(c.itemID, "retaken", "%d units left the backup for late payments, orders took up %d.", counted, listed))
	}
	return found
}

// difference describes the difference between the two counts.
func (r BookRow) difference() string {
	return fmt.Sprintf("available %d, but Redis has remaining %d + in flight %d + release pending %d: the difference is %d.",
		r.Available, r.RedisRemaining, r.InFlight, r.ReleasePending, r.Difference)
}

// finding is a suspected violation. Found twice with the same kind and subject,
// with proof.Recheck in between, it is a violation.
type finding struct {
	itemID  int64
	kind    string
	subject string
	detail  string
}

func (f finding) key() string { return f.kind + " " + f.subject }

// prove examines every item and returns what lasts.
func (s *Service) prove(ctx context.Context, examine func(*cut) []finding) (violations []proof.Violation, err error) {
	stocks, err := s.allStock(ctx)
	if err != nil {
		return nil, err
	}
	found, err := s.lasting(ctx, stocks, examine)
	for _, f := range found {
		violations = append(violations, proof.Violation{Subject: f.subject, Detail: f.detail})
	}
	return violations, err
}

// lasting examines items, and those with findings again after a pause in which
// work in flight can finish. It returns what both found, item by item.
func (s *Service) lasting(ctx context.Context, stocks []Stock, examine func(*cut) []finding) ([]finding, error) {
	var suspects []int64
	for shards := range perItem(stocks) {
		suspects = append(suspects, shards[0].ItemID)
	}
	return proof.Lasting(ctx, s.recheck, 1, finding.key, func(ctx context.Context) (found []finding, err error) {
		items := suspects
		suspects = nil
		for _, itemID := range items {
			c, err := s.readCut(ctx, itemID)
			if err != nil {
				return nil, err
			}
			if here := examine(c); len(here) > 0 {
				found, suspects = append(found, here...), append(suspects, itemID)
			}
		}
		return found, nil
	})
}

// withoutStock finds live orders for items that have no stock row.
func (s *Service) withoutStock(ctx context.Context) ([]proof.Violation, error) {
	// The orders are read first: a stock row exists before its first order.
	units, err := s.deps.Books.LiveUnits(ctx)
	if err != nil {
		return nil, fmt.Errorf("inventory: read live units: %w", err)
	}
	stocks, err := s.allStock(ctx)
	if err != nil {
		return nil, err
	}
	for _, st := range stocks {
		delete(units, st.ItemID)
	}
	var found []proof.Violation
	for itemID, u := range units {
		if n := u.Held + u.Sold; n != 0 {
			found = append(found, proof.Violation{
				Subject: ItemSubject(itemID), Detail: fmt.Sprintf("%d units are in live orders, but the item has no stock row.", n),
			})
		}
	}
	return found, nil
}

// about makes a finding on an item as a whole.
func about(itemID int64, kind, format string, args ...any) finding {
	return finding{itemID: itemID, kind: kind, subject: ItemSubject(itemID), detail: fmt.Sprintf(format, args...)}
}

// aboutOrder makes a finding on one number of an item.
func aboutOrder(itemID int64, no ids.ID, kind, format string, args ...any) finding {
	return finding{
		itemID: itemID, kind: kind, subject: "order " + no.String(), detail: fmt.Sprintf("Item %d: ", itemID) + fmt.Sprintf(format, args...),
	}
}

// oversold is I1, on both sides and for the stock row's own equation.
func (c *cut) oversold() []finding {
	var found []finding
	for _, f := range c.sum().oversold() {
		found = append(found, about(c.itemID, f.kind, "%s", f.detail))
	}
	found = append(found, c.retakesDiffer()...)
	for _, sh := range c.shards {
		if !sh.loaded {
			continue
		}
		st, marked := sh.state, sh.marked()
		if !st.Unlimited && (st.Remaining < 0 || marked > st.Total) {
			found = append(found, about(c.itemID, "redis", "Redis granted %d of %d units and counts %d remaining.", marked, st.Total, st.Remaining))
		} else if st.Remaining+marked != st.Total {
			found = append(found, about(c.itemID, "redis", "Redis counts %d remaining and %d held, the total is %d.", st.Remaining, marked, st.Total))
		}
	}
	return found
}

// disagreements is I2, for items that Redis decides on.
func (c *cut) disagreements() []finding {
	row := c.sum()
	if !row.Loaded {
		return nil // the next Load makes them agree
	}
	var found []finding
	if row.Difference != 0 {
		found = append(found, about(c.itemID, "difference", "%s", row.difference()))
	}
	if row.RetakePending != 0 {
		found = append(found, about(c.itemID, "retake", "late payments took %d more units from the backup than Redis counts.", row.RetakePending))
	}
	marks := map[ids.ID]mark{}
	for i, sh := range c.shards {
		var paid int64
		if n := withdrawn(c.stocks[i], sh.state); n > 0 {
			found = append(found, about(c.itemID, "withdrawn", "%d units were taken off the sale in Redis for the backup, and Postgres has not moved them.", n))
		}
		for user, m := range sh.users {
			marks[m.no] = m
			if sh.item.PerActivity && sh.buyers[user] != m.no {
				found = append(found, aboutOrder(c.itemID, m.no, "no-buyer", "user %d holds units, and does not count as a buyer of the activity.", user))
			}
			if m.paid {
				paid += int64(m.quantity)
			}
		}
		// Units may have been paid for after their mark was read.
		if paid > sh.state.Committed || paid < min(sh.before.Committed, sh.state.Committed) {
			found = append(found, about(c.itemID, "committed", "Redis counts %d units as paid for, its marks say %d.", sh.state.Committed, paid))
		}
	}
	for no, h := range c.live {
		m, marked := marks[no]
		switch {
		case !marked && ended(c.status[no]): // released since Postgres was read
		case !marked && row.RetakePending > 0 && c.retaken[no] > 0: // found as retake
		case !marked:
			found = append(found, aboutOrder(c.itemID, no, "unmarked", "user %d has a live order of %d units that Redis does not hold.", h.User, h.Quantity))
		case m.quantity != h.Quantity:
			found = append(found, aboutOrder(c.itemID, no, "quantity", "the order has %d units, Redis holds %d.", h.Quantity, m.quantity))
		case h.Paid && !m.paid:
			found = append(found, aboutOrder(c.itemID, no, "uncommitted", "the order is paid, Redis counts it as unpaid."))
		case m.paid && !h.Paid:
			found = append(found, aboutOrder(c.itemID, no, "paid", "Redis counts it as paid, Postgres does not."))
		}
	}
	return found
}

// orphans is I8, for items that Redis decides on.
func (c *cut) orphans() []finding {
	if !c.loaded() {
		return nil
	}
	var found []finding
	for _, sh := range c.shards {
		for user, m := range sh.users {
			_, waiting := sh.holds[m.no]
			if _, ok := c.live[m.no]; ok {
				continue
			}
			switch status := c.status[m.no]; {
			case status == statusReturning:
			case ended(status):
				found = append(found, aboutOrder(c.itemID, m.no, "ended", "user %d still holds %d units in Redis, the order is %s.", user, m.quantity, status))
			case status == "" && !waiting:
				found = append(found, aboutOrder(c.itemID, m.no, "unknown", "user %d holds %d units in Redis, but there is no such order and none on its way.", user, m.quantity))
			}
		}
		for no, h := range sh.holds {
			if sh.users[h.user].no != no {
				found = append(found, aboutOrder(c.itemID, no, "hold", "Redis waits for the order of user %d, who holds no units under it.", h.user))
			} else if _, ok := c.live[no]; ok {
				found = append(found, aboutOrder(c.itemID, no, "written", "Redis waits for the order of user %d, which is written.", h.user))
			}
		}
		for user, no := range sh.buyers {
			if sh.users[user].no != no {
				found = append(found, aboutOrder(c.itemID, no, "buyer", "user %d counts as a buyer of the activity without holding this item.", user))
			}
		}
	}
	return found
}
