package books

import (
	"context"
	"fmt"
	"slices"

	"stampede/inventory/stock"
	"stampede/platform/base/ids"
	"stampede/platform/watch/proof"
)

// oversold is I1 for the sums in Postgres.
func (r Row) oversold() []Finding {
	lives := r.Held + r.Sold
	sum := r.Available + lives + r.Backup + r.WrittenOff
	return slices.Concat(
		when(!r.Unlimited && lives > r.Total, r.ItemID, "live", "%d units are in live orders, the total is %d.", lives, r.Total),
		when(!r.Unlimited && r.Available < 0, r.ItemID, "available", "%d units are available.", r.Available),
		when(sum != r.Total, r.ItemID, "equation", "available %d + held %d + sold %d + backup %d + written off %d = %d, the total is %d.",
			r.Available, r.Held, r.Sold, r.Backup, r.WrittenOff, sum, r.Total))
}

// retakesDiffer is the part of I1 about the backup: the units that left it are those of the orders that were taken up
// again, each once.
func (c *Cut) retakesDiffer() []Finding {
	var counted, listed int64
	for _, st := range c.Stocks {
		counted += int64(st.Retaken)
	}
	for _, units := range c.retaken {
		listed += int64(units)
	}
	return when(counted != listed, c.ItemID, "retaken", "%d units left the backup for late payments, orders took up %d.", counted, listed)
}

// difference describes the difference between the two counts.
func (r Row) difference() string {
	return fmt.Sprintf("available %d, but Redis has remaining %d + in flight %d + release pending %d: the difference is %d.",
		r.Available, r.RedisRemaining, r.InFlight, r.ReleasePending, r.Difference)
}

// Finding is a suspected violation. Found twice with the same kind and subject, with proof.Recheck in between, it is
// a violation.
type Finding struct {
	ItemID int64
	Kind   string
	proof.Violation
}

// Key is the same for both.
func (f Finding) Key() string { return f.Kind + " " + f.Subject }

// Lasting examines items, and those with findings again after a pause in which work in flight can finish. It returns
// what both found, item by item.
func (s *Service) Lasting(ctx context.Context, stocks []stock.Row, examine func(*Cut) []Finding) ([]Finding, error) {
	var suspects []int64
	for shards := range stock.PerItem(stocks) {
		suspects = append(suspects, shards[0].ItemID)
	}
	return proof.Lasting(ctx, s.Recheck, 1, Finding.Key, func(ctx context.Context) (found []Finding, err error) {
		items := suspects
		suspects = nil
		for _, itemID := range items {
			c, err := s.ReadCut(ctx, itemID)
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

// violation makes one of an item as a whole.
func violation(itemID int64, format string, args ...any) proof.Violation {
	return proof.Violation{Subject: stock.ItemSubject(itemID), Detail: fmt.Sprintf(format, args...)}
}

// when makes a finding on an item as a whole if there is one.
func when(found bool, itemID int64, kind, format string, args ...any) []Finding {
	if !found {
		return nil
	}
	return []Finding{{itemID, kind, violation(itemID, format, args...)}}
}

// AboutOrder makes a finding on one number of an item.
func AboutOrder(itemID int64, no ids.ID, kind, format string, args ...any) Finding {
	return Finding{itemID, kind, proof.Violation{
		Subject: "order " + no.String(), Detail: fmt.Sprintf("Item %d: ", itemID) + fmt.Sprintf(format, args...),
	}}
}

// Oversold is I1, on both sides and for the stock row's own equation.
func (c *Cut) Oversold() []Finding {
	found := append(c.Sum().oversold(), c.retakesDiffer()...)
	for _, sh := range c.Shards {
		if !sh.Loaded {
			continue
		}
		st, marked := sh.State, sh.marked()
		above := !st.Unlimited && (st.Remaining < 0 || marked > st.Total)
		found = slices.Concat(found,
			when(above, c.ItemID, "redis", "Redis granted %d of %d units and counts %d remaining.", marked, st.Total, st.Remaining),
			when(!above && st.Remaining+marked != st.Total, c.ItemID, "redis",
				"Redis counts %d remaining and %d held, the total is %d.", st.Remaining, marked, st.Total))
	}
	return found
}

// disagreements is I2, for items that Redis decides on.
func (c *Cut) disagreements() []Finding {
	row := c.Sum()
	if !row.Loaded {
		return nil // the next Load makes them agree
	}
	found := slices.Concat(
		when(row.Difference != 0, c.ItemID, "difference", "%s", row.difference()),
		when(row.RetakePending != 0, c.ItemID, "retake", "late payments took %d more units from the backup than Redis counts.", row.RetakePending))
	marks := map[ids.ID]stock.Mark{}
	for i, sh := range c.Shards {
		var paid int64
		off := stock.Withdrawn(c.Stocks[i], sh.State)
		found = append(found, when(off > 0, c.ItemID, "withdrawn",
			"%d units were taken off the sale in Redis for the backup, and Postgres has not moved them.", off)...)
		for user, m := range sh.users {
			marks[m.No] = m
			if sh.item.PerActivity && sh.buyers[user] != m.No {
				found = append(found, AboutOrder(c.ItemID, m.No, "no-buyer", "user %d holds units, and does not count as a buyer of the activity.", user))
			}
			if m.Paid {
				paid += int64(m.Quantity)
			}
		}
		// Units may have been paid for after their mark was read.
		found = append(found, when(paid > sh.State.Committed || paid < min(sh.before.Committed, sh.State.Committed), c.ItemID, "committed",
			"Redis counts %d units as paid for, its marks say %d.", sh.State.Committed, paid)...)
	}
	for no, h := range c.live {
		m, marked := marks[no]
		switch {
		case !marked && stock.Ended(c.status[no]): // released since Postgres was read
		case !marked && row.RetakePending > 0 && c.retaken[no] > 0: // found as retake
		case !marked:
			found = append(found, AboutOrder(c.ItemID, no, "unmarked", "user %d has a live order of %d units that Redis does not hold.", h.User, h.Quantity))
		case m.Quantity != h.Quantity:
			found = append(found, AboutOrder(c.ItemID, no, "quantity", "the order has %d units, Redis holds %d.", h.Quantity, m.Quantity))
		case h.Paid && !m.Paid:
			found = append(found, AboutOrder(c.ItemID, no, "uncommitted", "the order is paid, Redis counts it as unpaid."))
		case m.Paid && !h.Paid:
			found = append(found, AboutOrder(c.ItemID, no, "paid", "Redis counts it as paid, Postgres does not."))
		}
	}
	return found
}

// orphans is I8, for items that Redis decides on.
func (c *Cut) orphans() []Finding {
	if !c.loaded() {
		return nil
	}
	var found []Finding
	for _, sh := range c.Shards {
		for user, m := range sh.users {
			_, waiting := sh.holds[m.No]
			if _, ok := c.live[m.No]; ok {
				continue
			}
			switch status := c.status[m.No]; {
			case status == stock.StatusReturning:
			case stock.Ended(status):
				found = append(found, AboutOrder(c.ItemID, m.No, "ended", "user %d still holds %d units in Redis, the order is %s.", user, m.Quantity, status))
			case status == "" && !waiting:
				found = append(found, AboutOrder(c.ItemID, m.No, "unknown", "user %d holds %d units in Redis, but there is no such order and none on its way.", user, m.Quantity))
			}
		}
		for no, h := range sh.holds {
			if sh.users[h.User].No != no {
				found = append(found, AboutOrder(c.ItemID, no, "hold", "Redis waits for the order of user %d, who holds no units under it.", h.User))
			} else if _, ok := c.live[no]; ok {
				found = append(found, AboutOrder(c.ItemID, no, "written", "Redis waits for the order of user %d, which is written.", h.User))
			}
		}
		for user, no := range sh.buyers {
			if sh.users[user].No != no {
				found = append(found, AboutOrder(c.ItemID, no, "buyer", "user %d counts as a buyer of the activity without holding this item.", user))
			}
		}
	}
	return found
}

// Differences are all findings on an item that Redis may have keys of.
func (c *Cut) Differences() []Finding {
	found := slices.Concat(c.Oversold(), c.disagreements(), c.orphans())
	for i, sh := range c.Shards {
		if !sh.Loaded {
			// A closed item is not loaded again: what returns to it returns in Postgres. For paused ones see refusing.
			waits := c.at.Before(c.Stocks[i].ClosesAt) && !c.Stocks[i].Paused
			found = append(found, when(waits, c.ItemID, "not-loaded", "Redis does not decide on the item.")...)
			continue
		}
		// A state that knows more than Postgres: the next health check has such an item loaded again.
		st, row := sh.State, c.Stocks[i]
		const lost = "Postgres only %d: Postgres has lost commits."
		found = slices.Concat(found,
			when(st.Epoch > row.Epoch, c.ItemID, "epoch-ahead", "Redis has the item's Load %d, "+lost, st.Epoch, row.Epoch),
			when(st.Rev > row.Rev, c.ItemID, "rev-ahead", "Redis has change %d of the item, "+lost, st.Rev, row.Rev),
			when(st.Rev < row.Rev, c.ItemID, "behind", "Redis has change %d of the item, Postgres %d.", st.Rev, row.Rev))
	}
	return found
}
