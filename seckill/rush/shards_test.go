package rush

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
)

func sharded(c *inventory.Config) { c.StockShards = 4 }

// crowd sends one rush of each user, all at once, and returns how often each code was answered; "" is 202.
func (i *instance) crowd(it *catalogue.Item, users int64) map[string]int {
	i.T.Helper()
	var mu sync.Mutex
	codes := map[string]int{}
	var all sync.WaitGroup
	for user := range users {
		path := i.issue(user+1, it, 1).Path
		all.Go(func() {
			for {
				a := i.send(path)
				if a.Code == "too-hot" { // asks to come back
					continue
				}
				mu.Lock()
				codes[a.Code]++
				mu.Unlock()
				return
			}
		})
	}
	all.Wait()
	return codes
}

// A crowd that knows nothing of shards gets every unit and no more, on two instances. The flag then answers for all
// shards, a return to one of them clears it, and another shard's user gets the unit.
func TestCrowdAtShardsGetsEveryUnit(t *testing.T) {
	t.Parallel()
	y := setup(t, sharded)
	it := y.Item(420)
	a, b := y.instance([]*catalogue.Item{it}), y.instance([]*catalogue.Item{it})
	defer a.work()()
	defer b.work()()
	first := make(chan map[string]int)
	go func() { first <- a.crowd(it, 300) }()
	codes := b.crowd(it, 300) // the same users, with paths of their own
	for code, n := range <-first {
		codes[code] += n
	}
	require.Equal(t, "answers to 300 users, twice", codes, map[string]int{"": 300, "already-bought": 300})
	require.Equal(t, "left", a.state(it).Remaining, int64(120))
	var rest sync.Mutex
	granted := map[string]int{}
	var all sync.WaitGroup
	for user := int64(1000); user < 1300; user++ {
		all.Go(func() {
			_, answer := a.buy(user, it)
			for answer.Code == "too-hot" {
				_, answer = a.buy(user, it)
			}
			rest.Lock()
			defer rest.Unlock()
			granted[answer.Code]++
		})
	}
	all.Wait()
	require.Equal(t, "answers for the last 120 units", granted, map[string]int{"": 120, "all-held": 180})
	y.SettleAll(420)
	for _, c := range y.Stock.Checks() {
		found, err := c.Run(t.Context())
		require.Equal(t, c.Name, fmt.Sprint(found, err), "[] <nil>")
	}

	a.buys("a stranger", 5000, it, http.StatusConflict, "all-held")
	if _, up := a.rush.lanes.all.find(it.ID).flag.refuses(6000, ids.ID{}); !up {
		t.Fatal("the flag is down although no shard has a unit")
	}
	holder := int64(1)
	no, _, _, _, ok, err := y.Stock.Hold(t.Context(), it.Stock(), holder)
	require.Equal(t, "a holder", []any{ok, err}, []any{true, nil})
	y.Close(no)
	elsewhere := int64(7000)
	for inventory.HomeOf(ids.Bucket(elsewhere), 4) == inventory.HomeOf(ids.Bucket(holder), 4) {
		elsewhere++
	}
	pgtest.Eventually(t, 30*time.Second, func() bool {
		_, up := a.rush.lanes.all.find(it.ID).flag.refuses(elsewhere, ids.ID{})
		return !up
	}, "the return clears the flag")
	a.buys("the user of another shard", elsewhere, it, http.StatusAccepted, "")
}

// borrowless is a stock whose units do not move between shards.
type borrowless struct{ stock }

func (borrowless) Borrow(context.Context, inventory.Item, int16, int64) (inventory.Whole, error) {
	return inventory.Whole{}, errors.New("Postgres is away")
}

// Whether another shard has units is not known then, so that nobody hears that there are none.
func TestUserOfAnEmptyShardComesBackWhenNothingCanBeBorrowed(t *testing.T) {
	t.Parallel()
	y := setup(t, sharded)
	it := y.Item(400)
	i := y.instance([]*catalogue.Item{it})
	away := borrowless{i.rush.lanes.stock}
	i.rush.lanes.stock = away
	user, sold := int64(0), 0
	for sold < 100 {
		if user++; inventory.HomeOf(ids.Bucket(user), 4) == 2 {
			i.buys("at the shard", user, it, http.StatusAccepted, "")
			sold++
		}
	}
	for user++; inventory.HomeOf(ids.Bucket(user), 4) != 2; user++ {
	}
	path := i.issue(user, it, 1).Path
	i.send(path).want(t, "an empty shard", http.StatusTooManyRequests, "too-hot", "1")
	i.rush.lanes.stock = away.stock
	i.send(path).want(t, "the same path again", http.StatusAccepted, "")
}

// A place in line counts the grants of all shards by those of one's own.
func TestPlaceAtAShard(t *testing.T) {
	t.Parallel()
	y := setup(t, sharded)
	it := y.Item(400)
	i := y.instance([]*catalogue.Item{it})
	var last rushPath
	user := int64(0)
	for n := 0; n < 3; user++ {
		if inventory.HomeOf(ids.Bucket(user+1), 4) == 1 {
			var a answer
			last, a = i.buy(user+1, it)
			a.accepted(t, "", last, "queued")
			n++
		}
	}
	i.inLine("the third at a shard of four", user, parse(t, last.OrderNo), it, 12)
}
