// Package books says where every unit is: it reads an item in Postgres and in Redis, brings both readings to one
// moment, and finds what they disagree on.
package books

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/inventory/internal/inventorydb"
	"stampede/inventory/ledger"
	"stampede/inventory/stock"
)

// Service reads the books.
type Service struct {
	*stock.Store
	ledger *ledger.Service
	cache  sync.Map // item id → cachedRow
	// The last comparison of BooksProbe.
	differ, difference prometheus.Gauge
}

// New returns the service.
func New(store *stock.Store, rows *ledger.Service) *Service {
	reg := promauto.With(store.Metrics)
	return &Service{
		Store: store, ledger: rows,
		differ: reg.NewGauge(prometheus.GaugeOpts{
			Name: "stampede_inventory_books_differing_items", Help: "Items on sale whose counts in Postgres and Redis differed in the last comparison, one each second on one instance.",
		}),
		difference: reg.NewGauge(prometheus.GaugeOpts{
			Name: "stampede_inventory_books_difference_units", Help: "Units by which the counts of items on sale differed in the last comparison. Releases on their way to Redis count for a moment.",
		}),
	}
}

// bookReads is how often an item is read whose books differ: an operator's change that reaches Redis between the two
// stores is a difference once.
const bookReads = 2

// Row says where an item's units are at one moment.
type Row struct {
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
	// RetakePending are units that late payments took from the backup and that Redis does not count as sold yet;
	// below 0 if it learned of them during the read.
	RetakePending int64 `json:"retake_pending"`
	// Difference is available − (remaining + in flight + release pending), apart from RetakePending; if not Loaded,
	// the difference between the stock row and its orders. It should be 0.
	Difference int64 `json:"difference"`
	Unlimited  bool  `json:"unlimited"`
	Loaded     bool  `json:"loaded"` // Redis decides on the item
}

// cachedRow is the row of an item without movement, so that a repeated call costs one small read for it, and none for
// a settled one.
type cachedRow struct {
	row   Row
	moved Fingerprint
}

// Fingerprint changes with every movement of an item's units: each raises the version of a stock row, of which it has
// the sum, or changes the state.
type Fingerprint struct {
	Version int64
	State   stock.State
}

// Book is where an item's units are, and its state in Redis that was read before; the zero State without one.
type Book struct {
	Row
	State stock.State
}

// Books returns every item's units, ordered by item. Rows of items at rest come from memory; the checks never use
// that memory. Rows read before an error stay there, so that a shop with more items than one call has time for
// completes in a few calls.
func (s *Service) Books(ctx context.Context) ([]Row, error) {
	stocks, err := s.AllStock(ctx)
	if err != nil {
		return nil, err
	}
	settled, err := s.SettledEpochs(ctx)
	if err != nil {
		return nil, err
	}
	books, err := s.readBooks(ctx, stocks, settled)
	if err != nil {
		return nil, err
	}
	listed := make(map[any]bool, len(books))
	rows := make([]Row, len(books))
	for i := range books {
		rows[i], listed[books[i].ItemID] = books[i].Row, true
	}
	s.cache.Range(func(itemID, _ any) bool {
		if !listed[itemID] {
			s.cache.Delete(itemID)
		}
		return true
	})
	return rows, nil
}

// BooksOf returns the books of items, by item; items without stock have none. Of all that are at rest it costs one
// query and one pipeline. With an error it returns the books that it could read.
func (s *Service) BooksOf(ctx context.Context, itemIDs ...int64) (map[int64]Book, error) {
	rows, err := stock.Rows(inventorydb.New(s.DB).StockOfItems(ctx, itemIDs))
	if err != nil {
		return nil, err
	}
	books, err := s.readBooks(ctx, rows, nil)
	byItem := make(map[int64]Book, len(books))
	for _, b := range books {
		byItem[b.ItemID] = b
	}
	return byItem, err
}

// Book is one item's row of Books; false for an item without stock.
func (s *Service) Book(ctx context.Context, itemID int64) (Row, bool, error) {
	books, err := s.BooksOf(ctx, itemID)
	b, ok := books[itemID]
	return b.Row, ok, err
}

// readBooks returns the books of the items that have these stock rows, without those that it could not read; the
// error is about the first of these. A settled item has nothing in Redis to read.
func (s *Service) readBooks(ctx context.Context, stocks []stock.Row, settled map[int64]int64) (books []Book, first error) {
	var items []stock.Item
	for shards := range stock.PerItem(stocks) {
		if epoch, ok := settled[shards[0].ItemID]; !ok || epoch != shards[0].Epoch {
			items = append(items, stock.Items(shards)...)
		}
	}
	stateOf, next := s.States(ctx, items), 0
	for shards := range stock.PerItem(stocks) {
		var b Book
		var err error
		if next < len(items) && items[next].ID == shards[0].ItemID {
			states, all := make([]stock.State, len(shards)), true
			for i := range states {
				st, ok, failed := stateOf(next + i)
				states[i], all, err = st, all && ok, cmp.Or(err, failed)
			}
			if next += len(shards); all && err == nil {
				b.State = stock.Sum(states)
			}
		}
		if err == nil {
			b.Row, err = s.bookRow(ctx, shards, b.State)
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
func (s *Service) bookRow(ctx context.Context, shards []stock.Row, state stock.State) (row Row, err error) {
	itemID, now := shards[0].ItemID, Fingerprint{State: state}
	for _, st := range shards {
		now.Version += st.Version
	}
	known, _ := s.cache.Load(itemID)
	if c, ok := known.(cachedRow); ok && c.moved == now {
		return c.row, nil
	}
	for range bookReads {
		c, err := s.ReadCut(ctx, itemID)
		if err != nil {
			return Row{}, err
		}
		if row = c.Sum(); row.Difference == 0 || !row.Loaded {
			break
		}
	}
	if row.atRest() {
		s.cache.Store(itemID, cachedRow{row: row, moved: now})
	}
	return row, nil
}

// atRest reports whether nothing is in flight for the item: the row stays true until its fingerprint changes. Without
// keys in Redis, because they were never written or the item is settled, only the payment of a waiting order can
// change it.
func (r Row) atRest() bool {
	if !r.Loaded {
		return r.Held == 0 && r.Difference == 0
	}
	return r.InFlight == 0 && r.ReleasePending == 0 && r.RetakePending == 0 && r.Difference == 0 && r.RedisCommitted == r.Sold
}

// PrintableBooks are the rows of Books, of one item or with 0 of all, and a function that prints them as a table.
func (s *Service) PrintableBooks(ctx context.Context, item int64) ([]Row, func(io.Writer) error, error) {
	rows, err := s.Books(ctx)
	if item != 0 {
		rows = slices.DeleteFunc(rows, func(r Row) bool { return r.ItemID != item })
	}
	return append([]Row{}, rows...), func(w io.Writer) error { return writeBooks(w, rows, item) }, err
}

// writeBooks prints where every unit of an item is; item 0 prints all rows.
func writeBooks(w io.Writer, rows []Row, item int64) error {
	var b strings.Builder
	switch {
	case len(rows) == 0 && item == 0:
		b.WriteString("No item has been published yet.\n\n")
	case len(rows) == 0:
		fmt.Fprintf(&b, "Item %d has no books: no item with that number was published.\n\n", item)
	default:
		fmt.Fprintf(&b, "%8s %9s = %9s + %7s + %7s + %6s + %8s   %10s %9s %8s %10s\n",
			"item", "total", "available", "held", "sold", "backup", "written", "redis left", "in flight", "pending", "difference")
	}
	for _, r := range rows {
		total, available, left := fmt.Sprint(r.Total), fmt.Sprint(r.Available), fmt.Sprint(r.RedisRemaining)
		if r.Unlimited { // an unlimited item is not counted down, so the figures are meaningless
			total, available, left = "unlimited", "–", "–"
		}
		if !r.Loaded {
			left = "–"
		}
		fmt.Fprintf(&b, "%8d %9s = %9s + %7d + %7d + %6d + %8d   %10s %9d %8d %10d\n",
			r.ItemID, total, available, r.Held, r.Sold, r.Backup, r.WrittenOff, left, r.InFlight, r.ReleasePending, r.Difference)
	}
	if len(rows) > 0 {
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}
