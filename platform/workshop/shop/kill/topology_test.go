package kill

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"stampede/platform/workshop/loadgen"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/shop"
)

// The topology tests run a shop of two instances on groups of servers, kill the
// most important server in the middle of a sale, and check the answers to both
// crowds against the books.

// twoServers is one shop with two instances.
type twoServers struct {
	t         *testing.T
	seed      uint64
	shop      *mortal // for access to its books; nothing of it dies here
	instances [2]*shop.Instance
	crowds    []*rushers
	singles   []*rushers // of one shopper each, who tested whether an item sells
}

// openShop starts two instances on the given stores.
func openShop(t *testing.T, redisURL, natsURL string, args ...string) *twoServers {
	t.Helper()
	databaseURL := pgtest.DatabaseURL(t)
	s := &twoServers{
		t: t, seed: rand.Uint64(),
		shop: &mortal{databaseURL: databaseURL, args: []string{"serve", "--database-url=" + databaseURL, "--redis-url=" + redisURL}},
	}
	args = append([]string{"--nats-url=" + natsURL}, args...)
	for i := range s.instances {
		s.instances[i] = shop.Serve(t, databaseURL, redisURL, args...)
	}
	return s
}

// rushers returns shoppers with unique ids.
func (s *twoServers) rushers(instance int) *rushers {
	n := 1 + len(s.crowds) + len(s.singles)
	c := newRushers(s.t, rand.New(rand.NewPCG(s.seed, uint64(n))), s.instances[instance].URL)
	c.nextUser = int64(n) * 10_000_000
	return c
}

// publish opens a sale immediately, of an item for each number of units, with a
// limit of two per user.
func (s *twoServers) publish(stocks ...int) (sales []loadgen.Planned) {
	s.t.Helper()
	if sales = s.rushers(0).publish(stocks...); sales == nil {
		s.t.Fatal("no sale")
	}
	return sales
}

// send points a crowd at an instance.
func (s *twoServers) send(sale loadgen.Planned, stock, instance int) {
	c := s.rushers(instance)
	c.sale, c.stock = sale, stock
	s.crowds = append(s.crowds, c)
}

// share is how many units a crowd buys in one part of a sale; it may exceed
// that by up to a wave of two units each. A test's stock is enough for all
// parts: a crowd at a sold-out item would rush without end.
const share = waveSize / 2

// rush lets every crowd buy its share, not counting cancellations, or rush
// until ctx ends.
func (s *twoServers) rush(ctx context.Context) {
	var all sync.WaitGroup
	for _, c := range s.crowds {
		enough := c.units() + share
		all.Go(func() {
			for c.units() < enough && ctx.Err() == nil {
				c.wave(nil) //nolint:contextcheck // its requests have time-outs of their own
			}
		})
	}
	all.Wait()
}

// rushWhile lets the crowds rush while fn runs.
func (s *twoServers) rushWhile(fn func()) { meanwhile(s.t, s.rush, fn) }

// meanwhile runs fn beside a rush, whose context ends after fn.
func meanwhile(t *testing.T, rush func(context.Context), fn func()) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	var rushing sync.WaitGroup
	rushing.Go(func() { rush(ctx) })
	defer rushing.Wait()
	defer end()
	fn()
}

// sells returns how long it takes until both instances have sold a unit. It
// retries, always with the same path.
func (s *twoServers) sells(sale loadgen.Planned) time.Duration {
	s.t.Helper()
	began := time.Now()
	for i := range s.instances {
		c := s.rushers(i)
		c.sale = sale
		c.sellOne()
		s.singles = append(s.singles, c)
	}
	return time.Since(began).Round(10 * time.Millisecond)
}

// sellsWithin fails the test if both instances need more than three times as long as expected to sell a unit.
func (s *twoServers) sellsWithin(sale loadgen.Planned, expected time.Duration) {
	s.t.Helper()
	away := s.sells(sale)
	s.t.Logf("the item %s was away for %s", sale.ItemID, away)
	if away > 3*expected {
		s.t.Errorf("the item %s was unavailable for %s, want at most %s", sale.ItemID, away, expected)
	}
}

// settle checks all answers against the books. It queries one instance about
// the answers of both.
func (s *twoServers) settle() {
	t := s.t
	t.Helper()
	byItem := map[string]*rushers{}
	for i, c := range slices.Concat(s.crowds, s.singles) { // a crowd first: it knows the stock
		all := byItem[c.sale.ItemID]
		if all == nil {
			all = c
			all.url, byItem[c.sale.ItemID] = s.instances[i%2].URL, c
			continue
		}
		all.shoppers = slices.Concat(all.shoppers, c.shoppers)
	}
	for _, all := range byItem {
		all.checkAfterCrashes(s.shop)
		for _, p := range all.shoppers {
			// No isolated primary continued to grant, so no 202 may end in a refusal.
			if p.told && p.status == statusRefused {
				t.Errorf("refused after 202: %s", p)
			}
		}
	}
}
