package keep

import (
	"fmt"
	"testing"
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
	b := idle()
	b.UnitsReturnWithin = time.Minute
	hints := make([]Hint, 200)
	for i := range hints {
		hints[i] = Hint{No: ids.New(), Status: []string{orderevent.StatusClosed, orderevent.StatusRefunded}[i/100]}
	}
	before := time.Now()
	item := stock.Item{ID: 1}
	require.NoError(t, b.accept(item, hints))
	moments := map[time.Time]bool{}
	for _, r := range b.later {
		moments[r.at] = true
		if after := r.at.Sub(before); after < 15*time.Second || after > 2*time.Minute {
			t.Errorf("a unit returns after %s", after)
		}
	}
	if len(moments) < 190 || len(b.of) > 0 {
		t.Errorf("%d moments for 200 units, and %d lists", len(moments), len(b.of))
	}
	require.NoError(t, b.accept(item, []Hint{{No: ids.New(), Status: orderevent.StatusRefused}}))
	require.Equal(t, "refused orders, which do not wait", len(b.of[item].waiting), 1)
	b.later = make(returns, mostReturning)
	require.NoError(t, b.accept(item, hints[:3]))
	require.Equal(t, "units that return at once when too many wait", len(b.of[item].waiting), 4)
}
