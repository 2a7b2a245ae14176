package inventory

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"sync"

	"stampede/inventory/internal/inventorydb"
)

// bookReads is how often an item is read whose books differ: an operator's change
// that reaches Redis between the two stores is a difference once.
const bookReads = 2

// BookRow says where an item's units are at one moment.
type BookRow struct {
	ItemID     int64 `json:"item_id,string"`
	Total      int64 `json:"total"`
	Available  int64 `json:"available"`
	Held       int64 `json:"held"` // in live orders that are not paid
	Sold       int64 `json:"sold"`
	Backup     int64 `json:"backup"`
	WrittenOff int64 `json:"written_off"`
	// The fields below are Redis's side, and zero unless Loaded.
	RedisRemaining int64 `json:"redis_remaining"`
	RedisCommitted int64 `json:"redis_committed"`
	InFlight       int64 `json:"in_flight"`       // granted, the order row is not written yet
	ReleasePending int64 `json:"release_pending"` // the order has ended, the release has not reached Redis yet
	// RetakePending are units that late payments took from the backup and that Redis
	// does not count as sold yet; below 0 if it learned of them during the read.
	RetakePending int64 `json:"retake_pending"`
	// Difference is available − (remaining + in flight + release pending), apart from
	// RetakePending; if not Loaded, the difference between the stock row and its
	// orders. It should be 0.
	Difference int64 `json:"difference"`
	Unlimited  bool  `json:"unlimited"`
	Loaded     bool  `json:"loaded"` // Redis decides on the item
}

// bookCache keeps the rows of items without movement, so that a repeated call
// costs one small read for each of them, and none for settled ones.
type bookCache struct {
	mu   sync.Mutex
	rows map[int64]cachedRow
}

type cachedRow struct {
	row   BookRow
	moved fingerprint
}

// fingerprint changes with every movement of an item's units: each raises the
// stock row's version or changes the state.
type fingerprint struct {
	version int64
	state   State
}

// Books returns every item's units, ordered by item. Rows of items at rest come
// from memory; the checks never use that memory. Rows read before an error stay
// there, so that a shop with more items than one call has time for completes in a
// few calls.
func (s *Service) Books(ctx context.Context) ([]BookRow, error) {
	stocks, err := s.allStock(ctx)
	if err != nil {
		return nil, err
	}
	settled, err := s.settledEpochs(ctx)
	if err != nil {
		return nil, err
	}
	s.bookCache.mu.Lock()
	defer s.bookCache.mu.Unlock()
	listed := make(map[int64]bool)
	var rows []BookRow
	for shards := range perItem(stocks) {
		itemID := shards[0].ItemID
		epoch, isSettled := settled[itemID]
		row, err := s.bookRow(ctx, shards, isSettled && epoch == shards[0].Epoch)
		if err != nil {
			return nil, err
		}
		rows, listed[itemID] = append(rows, row), true
	}
	maps.DeleteFunc(s.bookCache.rows, func(itemID int64, _ cachedRow) bool { return !listed[itemID] })
	return rows, nil
}

// Book is one item's row of Books; false for an item without stock.
func (s *Service) Book(ctx context.Context, itemID int64) (BookRow, bool, error) {
	rows, err := inventorydb.New(s.deps.DB).StockOfItem(ctx, itemID)
	if err != nil {
		return BookRow{}, false, fmt.Errorf("inventory: read stock of item %d: %w", itemID, err)
	}
	if len(rows) == 0 {
		return BookRow{}, false, nil
	}
	s.bookCache.mu.Lock()
	defer s.bookCache.mu.Unlock()
	row, err := s.bookRow(ctx, stocksOf(rows), false)
	return row, err == nil, err
}

// bookRow is an item's row, from memory if nothing of it has moved; bookCache.mu
// must be held. A settled item has nothing in Redis to read.
func (s *Service) bookRow(ctx context.Context, shards []Stock, settled bool) (row BookRow, err error) {
	st := shards[0]
	now := fingerprint{version: st.Version}
	if !settled {
		if now.state, _, err = s.State(ctx, st.item()); err != nil {
			return BookRow{}, err
		}
	}
	if known, ok := s.bookCache.rows[st.ItemID]; ok && known.moved == now {
		return known.row, nil
	}
	delete(s.bookCache.rows, st.ItemID)
	for range bookReads {
		c, err := s.readCut(ctx, st.ItemID)
		if err != nil {
			return BookRow{}, err
		}
		if row = c.sum(); row.Difference == 0 || !row.Loaded {
			break
		}
	}
	// One fingerprint does not cover several counters.
	if len(shards) == 1 && row.atRest() {
		if s.bookCache.rows == nil {
			s.bookCache.rows = make(map[int64]cachedRow)
		}
		s.bookCache.rows[st.ItemID] = cachedRow{row: row, moved: now}
	}
	return row, nil
}

// perItem yields the stock rows item by item.
func perItem(stocks []Stock) iter.Seq[[]Stock] {
	return func(yield func([]Stock) bool) {
		for len(stocks) > 0 {
			n := 1
			for n < len(stocks) && stocks[n].ItemID == stocks[0].ItemID {
				n++
			}
			if !yield(stocks[:n]) {
				return
			}
			stocks = stocks[n:]
		}
	}
}

// atRest reports whether nothing is in flight for the item: the row stays true
// until its fingerprint changes. Without keys in Redis, because they were never
// written or the item is settled, only the payment of a waiting order can
// change it.
func (r BookRow) atRest() bool {
	if !r.Loaded {
		return r.Held == 0 && r.Difference == 0
	}
	return r.InFlight == 0 && r.ReleasePending == 0 && r.RetakePending == 0 && r.Difference == 0 && r.RedisCommitted == r.Sold
}

// allStock reads every stock row, ordered by item and shard.
func (s *Service) allStock(ctx context.Context) ([]Stock, error) {
	rows, err := inventorydb.New(s.deps.DB).AllStock(ctx)
	if err != nil {
		return nil, fmt.Errorf("inventory: read all stock: %w", err)
	}
	return stocksOf(rows), nil
}
