package inventory

import (
	"testing"

	"stampede/platform/workshop/require"
)

// One item's books equal its row in the list, and read nothing of other items.
func TestBookIsARowOfBooks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 5))
	inFlight, written := one(1), one(2)
	b.reserve(item, epoch, inFlight, written)
	b.write(item, epoch, written)
	other, _ := b.loaded(onSale(2, 3))
	rows, err := b.Books(t.Context())
	if err != nil || len(rows) != 2 {
		t.Fatalf("%+v, %v", rows, err)
	}
	require.NoError(t, b.rdb.Set(t.Context(), other.stateKey(), "not a hash", 0).Err())
	for range 2 { // the second time at rest
		row, ok, err := b.Book(t.Context(), item.ID)
		if err != nil || !ok || row != rows[0] || row.Held != 1 || row.InFlight != 1 {
			t.Errorf("%+v, %v, %v, want %+v", row, ok, err, rows[0])
		}
	}
	books, err := b.BooksOf(t.Context(), other.ID, item.ID)
	if _, ok := books[other.ID]; err == nil || ok || books[item.ID].BookRow != rows[0] || books[item.ID].State.Queued() != 1 {
		t.Errorf("beside an item that cannot be read: %+v, %v", books, err)
	}
	if row, ok, err := b.Book(t.Context(), 99); err != nil || ok {
		t.Errorf("an item without stock: %+v, %v, %v", row, ok, err)
	}
}

// An item that cannot be read does not discard what was read before it.
func TestBooksContinueAfterError(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, _ := b.loaded(onSale(1, 5))
	second, _ := b.loaded(onSale(2, 3))
	require.NoError(t, b.rdb.Set(t.Context(), second.stateKey(), "not a hash", 0).Err())
	if rows, err := b.Books(t.Context()); err == nil {
		t.Fatalf("%+v", rows)
	}
	if _, ok := b.bookCache.Load(first.ID); !ok {
		t.Error("the first item would be read again")
	}
	require.NoError(t, b.rdb.Del(t.Context(), second.stateKey()).Err())
	if rows, err := b.Books(t.Context()); err != nil || len(rows) != 2 {
		t.Errorf("%+v, %v", rows, err)
	}
}
