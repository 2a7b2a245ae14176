package keep

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"stampede/inventory/stock"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

// idle is a service without stores.
func idle() *Service { return New(stock.NewStore(stock.DefaultConfig(), stock.Deps{}), nil) }

// What does not fit on an item's work list marks the item, and takes no memory.
func TestWorkListIsBounded(t *testing.T) {
	t.Parallel()
	b := idle()
	item, other := stock.Item{ID: 1}, stock.Item{ID: 2}
	for range 3 {
		require.NoError(t, b.accept(item, make([]Hint, mostHints/2+1)))
	}
	require.NoError(t, b.accept(other, make([]Hint, 1)))
	require.Equal(t, "on the list", len(b.of[item].waiting), mostHints)
	_, dropped := b.Dropped.Load(item)
	require.Equal(t, "to be compared", dropped, true)
	_, dropped = b.Dropped.Load(other)
	require.Equal(t, "the other item's", dropped, false)
}

// A panic in one item's call is that item's failure.
func TestPanicIsItsItemsFailure(t *testing.T) {
	t.Parallel()
	b := idle()
	hints := []Hint{{Status: orderevent.StatusPaid}}
	left, err := b.ApplyHints(t.Context(), stock.Item{ID: 1}, hints)
	require.Equal(t, "left, and an error", fmt.Sprint(len(left), err != nil), "1 true")
}

// Every unit has a moment of its own, none sooner than a quarter of the bound; orders that the shop refused do not
// wait.
func TestReturnsAreSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := idle()
		b.UnitsReturnWithin = time.Minute
		hints := make([]Hint, 200)
		for i := range hints {
			hints[i] = Hint{No: ids.New(), Status: []string{orderevent.StatusClosed, orderevent.StatusRefunded}[i/100]}
		}
		item := stock.Item{ID: 1}
		listed := func(after time.Duration) int {
			<-time.After(after)
			synctest.Wait()
			b.mu.Lock()
			defer b.mu.Unlock()
			if list := b.of[item]; list != nil {
				return len(list.waiting)
			}
			return 0
		}
		require.NoError(t, b.accept(item, hints))
		require.Equal(t, "units that return in the first quarter", listed(15*time.Second-time.Nanosecond), 0)
		moments, before := 0, 0
		for range 450 {
			if n := listed(100 * time.Millisecond); n > before {
				moments, before = moments+1, n
			}
		}
		if moments < 100 || before != 200 {
			t.Errorf("%d units returned at %d moments", before, moments)
		}
		require.NoError(t, b.accept(item, []Hint{{No: ids.New(), Status: orderevent.StatusRefused}}))
		require.Equal(t, "refused orders, which do not wait", listed(0), 201)
		for range mostReturning {
			b.later[&returning{}] = nil
		}
		require.NoError(t, b.accept(item, hints[:3]))
		require.Equal(t, "units that return at once when too many wait", listed(0), 204)
	})
}
