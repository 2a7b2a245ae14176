package inventory

import (
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
)

// loaded reports whether Redis decides on every part of the item.
func (c *cut) loaded() bool {
	for _, sh := range c.shards {
		if !sh.loaded {
			return false
		}
	}
	return len(c.shards) > 0
}

// ended reports whether orders of a status no longer hold units.
func ended(status string) bool {
	switch status {
	case orderevent.StatusClosed, orderevent.StatusRefused, orderevent.StatusRefunded, statusReturning:
		return true
	default:
		return false
	}
}

// sum classifies the cut's units: every unit that Redis holds is a live
// order's, in flight, or about to be released.
func (c *cut) sum() BookRow {
	row := BookRow{ItemID: c.itemID, Loaded: c.loaded()}
	for _, st := range c.stocks {
		row.Total += int64(st.Total)
		row.Available += int64(st.Available)
		row.Backup += int64(st.Backup)
		row.WrittenOff += int64(st.WrittenOff)
		row.RetakePending += int64(st.Retaken)
		row.Unlimited = row.Unlimited || st.Unlimited
	}
	for _, h := range c.live {
		if h.Paid {
			row.Sold += int64(h.Quantity)
		} else {
			row.Held += int64(h.Quantity)
		}
	}
	if !row.Loaded {
		row.RetakePending = 0
		row.Difference = row.Available + row.Held + row.Sold + row.Backup + row.WrittenOff - row.Total
		return row
	}
	marked := map[ids.ID]bool{}
	var taken int64
	for i, sh := range c.shards {
		taken += max(0, withdrawn(c.stocks[i], sh.state))
		row.RedisRemaining += sh.state.Remaining
		row.RedisCommitted += sh.state.Committed
		row.RetakePending -= sh.state.Retaken
		row.InFlight += sh.unnamed
		for _, m := range sh.users {
			marked[m.no] = true
			if _, ok := c.live[m.no]; ok {
				continue
			}
			// A row written after the cut in Postgres was in flight at that time.
			if ended(c.status[m.no]) {
				row.ReleasePending += int64(m.quantity)
			} else {
				row.InFlight += int64(m.quantity)
			}
		}
	}
	// Live when Postgres was read; ended and released before Redis was read.
	var returned, absent int64
	for no, h := range c.live {
		switch {
		case marked[no]:
		case ended(c.status[no]):
			returned += int64(h.Quantity)
		case c.retaken[no] > 0:
			absent += int64(h.Quantity) // its release came before it was taken up again
		}
	}
	row.Difference = row.Available + returned + absent - taken - row.RetakePending - row.RedisRemaining - row.InFlight - row.ReleasePending
	return row
}
