package inventory

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/internal/inventorydb"
	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
)

// cut is an item in Postgres at one moment, and each of its counters in Redis at
// a later one. Postgres comes first, so the orders' statuses, which are read last,
// explain what happened in between.
type cut struct {
	itemID int64
	stocks []Stock
	live   map[ids.ID]Held
	// retaken has the units of orders that were ever taken up again.
	retaken map[ids.ID]int32
	shards  []shardCut
	// status has every number that Redis holds without a live order, and every
	// live order that Redis does not hold; without a row it is "".
	status map[ids.ID]string
	at     time.Time // Redis's time of the reading; zero if every counter is loaded
}

// readCut reads an item.
func (s *Service) readCut(ctx context.Context, itemID int64) (*cut, error) {
	c := &cut{itemID: itemID, live: map[ids.ID]Held{}, status: map[ids.ID]string{}}
	err := pgx.BeginTxFunc(ctx, s.deps.DB, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		rows, err := inventorydb.New(tx).StockOfItem(ctx, itemID)
		if err != nil {
			return err
		}
		c.stocks = stocksOf(rows)
		if err := c.readRetaken(ctx, s, tx); err != nil {
			return err
		}
		return s.deps.Holds.Live(ctx, tx, itemID, func(part []Held) error {
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
	for _, st := range c.stocks {
		sh, err := s.readShard(ctx, st.item())
		if err != nil {
			return nil, err
		}
		c.shards = append(c.shards, sh)
		for _, m := range sh.users {
			held[m.no] = true
			if _, ok := c.live[m.no]; !ok {
				unsure = append(unsure, m.no)
			}
		}
	}
	if !c.loaded() {
		if c.at, err = clock.RedisTime(ctx, s.deps.Redis); err != nil {
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
		c.status, err = s.statuses(ctx, itemID, unsure, mostReturnWithin)
	}
	return c, err
}

// readRetaken reads the orders that were taken up again, of which most items have
// none.
func (c *cut) readRetaken(ctx context.Context, s *Service, tx pgx.Tx) error {
	units := int32(0)
	for _, st := range c.stocks {
		units += st.Retaken
	}
	if units == 0 {
		return nil
	}
	rows, err := s.retakes(ctx, tx, c.itemID)
	c.retaken = make(map[ids.ID]int32, len(rows))
	for _, r := range rows {
		c.retaken[r.OrderNo] = r.Quantity
	}
	return err
}
