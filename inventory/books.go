package inventory

import (
	"context"
	"fmt"
	"iter"

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

// cachedRow is the row of an item without movement, so that a repeated call costs one
// small read for it, and none for a settled one.
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

// Book is where an item's units are, and its state in Redis that was read before; the
// zero State without one.
type Book struct {
	BookRow
	State State
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
	books, err := s.readBooks(ctx, stocks, settled)
	if err != nil {
		return nil, err
	}
	listed := make(map[any]bool, len(books))
	rows := make([]BookRow, len(books))
	for i := range books {
		rows[i], listed[books[i].ItemID] = books[i].BookRow, true
	}
	s.bookCache.Range(func(itemID, _ any) bool {
		if !listed[itemID] {
			s.bookCache.Delete(itemID)
		}
		return true
	})
	return rows, nil
}

// BooksOf returns the books of items, by item; items without stock have none. Of all
// that are at rest it costs one query and one pipeline. With an error it returns the
// books that it could read.
func (s *Service) BooksOf(ctx context.Context, itemIDs ...int64) (map[int64]Book, error) {
	rows, err := inventorydb.New(s.deps.DB).StockOfItems(ctx, itemIDs)
	if err != nil {
		return nil, fmt.Errorf("inventory: read stock of %d items: %w", len(itemIDs), err)
	}
	books, err := s.readBooks(ctx, stocksOf(rows), nil)
	byItem := make(map[int64]Book, len(books))
	for _, b := range books {
		byItem[b.ItemID] = b
	}
	return byItem, err
}

// Book is one item's row of Books; false for an item without stock.
func (s *Service) Book(ctx context.Context, itemID int64) (BookRow, bool, error) {
	books, err := s.BooksOf(ctx, itemID)
	b, ok := books[itemID]
	return b.BookRow, ok, err
}

// readBooks returns the books of the items that have these stock rows, without those
// that it could not read; the error is about the first of these. A settled item has
// nothing in Redis to read.
func (s *Service) readBooks(ctx context.Context, stocks []Stock, settled map[int64]int64) (books []Book, first error) {
	var items []Item
	for shards := range perItem(stocks) {
		if epoch, ok := settled[shards[0].ItemID]; !ok || epoch != shards[0].Epoch {
			items = append(items, shards[0].item())
		}
	}
	stateOf, next := s.states(ctx, items), 0
	for shards := range perItem(stocks) {
		var b Book
		var err error
		if next < len(items) && items[next].ID == shards[0].ItemID {
			b.State, _, err = stateOf(next)
			next++
		}
		if err == nil {
			b.BookRow, err = s.bookRow(ctx, shards, b.State)
		}
		if err == nil {
			books = append(books, b)
		} else if first == nil {
			first = err
		}
	}
	return books, first
}

// bookRow is an item's row, from memory if nothing of it has moved.
func (s *Service) bookRow(ctx context.Context, shards []Stock, state State) (row BookRow, err error) {
	itemID, now := shards[0].ItemID, fingerprint{version: shards[0].Version, state: state}
	known, _ := s.bookCache.Load(itemID)
	if c, ok := known.(cachedRow); ok && c.moved == now {
		return c.row, nil
	}
	for range bookReads {
		c, err := s.readCut(ctx, itemID)
		if err != nil {
			return BookRow{}, err
		}
		if row = c.sum(); row.Difference == 0 || !row.Loaded {
			break
		}
	}
	// One fingerprint does not cover several counters.
	if len(shards) == 1 && row.atRest() {
		s.bookCache.Store(itemID, cachedRow{row: row, moved: now})
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
