package books

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/stock"
	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
)

// Cut is an item in Postgres at one moment, and each of its counters in Redis at a later one. Postgres comes first,
// so the orders' statuses, which are read last, explain what happened in between.
type Cut struct {
	ItemID int64
	Stocks []stock.Row
	live   map[ids.ID]stock.Held
	// retaken has the units of orders that were ever taken up again.
	retaken map[ids.ID]int32
	Shards  []ShardCut
	// status has every number that Redis holds without a live order, and every live order that Redis does not hold;
	// without a row it is "".
	status map[ids.ID]string
	at     time.Time // Redis's time of the reading; zero if every counter is loaded
	// moved says that units moved between the shards while they were read, so that their sum is of no moment.
	moved bool
}

// cutReads is how often an item is read whose units move between its shards meanwhile.
const cutReads = 3

// ReadCut reads an item.
func (s *Service) ReadCut(ctx context.Context, itemID int64) (c *Cut, err error) {
	for range cutReads {
		if c, err = s.readCut(ctx, itemID); err != nil || len(c.Stocks) < 2 {
			return c, err
		}
		after, err := stock.OfItem(ctx, s.DB, itemID)
		if err != nil {
			return nil, err
		}
		c.moved = !slices.EqualFunc(c.Stocks, after, func(a, b stock.Row) bool { return a.Rev == b.Rev && a.Epoch == b.Epoch })
		if !c.moved {
			break
		}
	}
	return c, nil
}

func (s *Service) readCut(ctx context.Context, itemID int64) (*Cut, error) {
	c := &Cut{ItemID: itemID, live: map[ids.ID]stock.Held{}, retaken: map[ids.ID]int32{}, status: map[ids.ID]string{}}
	err := pgx.BeginTxFunc(ctx, s.DB, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		var err error
		if c.Stocks, err = stock.OfItem(ctx, tx, itemID); err != nil {
			return err
		}
		// Of most items no order was ever taken up again.
		if slices.ContainsFunc(c.Stocks, func(st stock.Row) bool { return st.Retaken > 0 }) {
			rows, err := s.ledger.Retakes(ctx, tx, itemID)
			if err != nil {
				return err
			}
			for _, r := range rows {
				c.retaken[r.OrderNo] = r.Quantity
			}
		}
		return s.Holds.Live(ctx, tx, itemID, func(part []stock.Held) error {
			for _, h := range part {
				c.live[h.No] = h
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("inventory: read books of item %d: %w", itemID, err)
	}
	held := map[ids.ID]bool{}
	var unsure []ids.ID
	for _, st := range c.Stocks {
		sh, err := s.readShard(ctx, st.Item())
		if err != nil {
			return nil, err
		}
		c.Shards = append(c.Shards, sh)
		for _, m := range sh.users {
			held[m.No] = true
			if _, ok := c.live[m.No]; !ok {
				unsure = append(unsure, m.No)
			}
		}
	}
	if !c.loaded() {
		if c.at, err = clock.RedisTime(ctx, s.Redis); err != nil {
			return nil, fmt.Errorf("inventory: read Redis's time: %w", err)
		}
		return c, nil
	}
	for no := range c.live {
		if !held[no] {
			unsure = append(unsure, no)
		}
	}
	if len(unsure) > 0 {
		c.status, err = s.Statuses(ctx, itemID, unsure, stock.MostReturnWithin)
	}
	return c, err
}

// loaded reports whether Redis decides on every part of the item.
func (c *Cut) loaded() bool {
	return len(c.Shards) > 0 && !slices.ContainsFunc(c.Shards, func(sh ShardCut) bool { return !sh.Loaded })
}

// Sum classifies the cut's units: every unit that Redis holds is a live order's, in flight, or about to be released.
func (c *Cut) Sum() Row {
	row := Row{ItemID: c.ItemID, Loaded: c.loaded()}
	for _, st := range c.Stocks {
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
	for i, sh := range c.Shards {
		taken += max(0, stock.Withdrawn(c.Stocks[i], sh.State))
		row.RedisRemaining += sh.State.Remaining
		row.RedisCommitted += sh.State.Committed
		row.RetakePending -= sh.State.Retaken
		row.InFlight += sh.unnamed
		for _, m := range sh.users {
			marked[m.No] = true
			if _, ok := c.live[m.No]; ok {
				continue
			}
			// A row written after the cut in Postgres was in flight at that time.
			if stock.Ended(c.status[m.No]) {
				row.ReleasePending += int64(m.Quantity)
			} else {
				row.InFlight += int64(m.Quantity)
			}
		}
	}
	// Live when Postgres was read; ended and released before Redis was read.
	var returned, absent int64
	for no, h := range c.live {
		switch {
		case marked[no]:
		case stock.Ended(c.status[no]):
			returned += int64(h.Quantity)
		case c.retaken[no] > 0:
			absent += int64(h.Quantity) // its release came before it was taken up again
		}
	}
	if !c.moved {
		row.Difference = row.Available + returned + absent - taken - row.RetakePending - row.RedisRemaining - row.InFlight - row.ReleasePending
	}
	return row
}

// AccountedFor reports whether every unit of an ended item is either sold or still available, in Postgres and in
// Redis.
func (c *Cut) AccountedFor() bool {
	row := c.Sum()
	if row.Held != 0 || row.Difference != 0 {
		return false
	}
	if !row.Loaded {
		return true // Redis decides nothing, and the removal checks its holds
	}
	return row.atRest() && !slices.ContainsFunc(c.Shards, func(sh ShardCut) bool { return len(sh.holds) > 0 })
}

// Epoch is the item's last Load according to Postgres.
func (c *Cut) Epoch() int64 {
	var last int64
	for _, st := range c.Stocks {
		last = max(last, st.Epoch)
	}
	return last
}
