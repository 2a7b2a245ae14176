package books

import (
	"context"

	"stampede/inventory/stock"
)

// Left is what the next attempt at an item finds in Redis.
type Left struct {
	Units     int64 // that can be taken; of no meaning if Unlimited
	Held      int64 // units of attempts and orders that are not paid, which may come back
	Unlimited bool
}

// Left returns what is left of the items that are on sale and decide now, of at most 2,000 items, those that close
// first. Items that are paused, fenced, or not as Postgres has them are missing. It costs one query and one pipeline
// that reads states. The error is about items that it left out; the others are valid.
func (s *Service) Left(ctx context.Context) (map[int64]Left, error) {
	rows, err := s.StockOnSale(ctx, glanceAtMost)
	if err != nil {
		return nil, err
	}
	stateOf, left, silent := s.States(ctx, stock.Items(rows)), make(map[int64]Left, len(rows)), map[int64]bool{}
	for i, row := range rows {
		state, ok, stateErr := stateOf(i)
		if stateErr != nil {
			err = stateErr
		}
		if stateErr != nil || !ok || !state.Ready() || state.Paused || state.Epoch != row.Epoch || state.Rev < row.Rev {
			silent[row.ItemID] = true // all of it: the other counters do not say whether units are left
			continue
		}
		of := left[row.ItemID]
		of.Units, of.Held, of.Unlimited = of.Units+max(0, state.Remaining), of.Held+max(0, state.Total-state.Committed-state.Remaining), state.Unlimited
		left[row.ItemID] = of
	}
	for item := range silent {
		delete(left, item)
	}
	return left, err
}
