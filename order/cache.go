package order

import (
	"context"
	"fmt"
	"time"

	"github.com/coocood/freecache"
	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/base/race"
)

const (
	// cacheRead bounds a shopper's request waiting for Redis; after it Postgres
	// answers. It is well above any pause of a healthy Redis.
	cacheRead = 500 * time.Millisecond
	// cacheWrite bounds one write; the event subscription repeats a write that
	// failed.
	cacheWrite = time.Second
)

// cache holds orders in Redis, in hashes of orders whose numbers were minted at
// about the same time; see [cachePlace]. The orders of one writer transaction
// take a few commands, each synced to Redis's log once; a key per order would
// cost ten times Redis's work.
//
// An entry never goes back in time: put.lua compares versions, and a new order
// is set only where there is none. Staleness is bounded in every case:
//
//   - the change reached Redis: not stale;
//   - Redis has no memory for it: the old entry is deleted in the same script;
//     a reader that had read Postgres before the change may still put the old
//     version back once there is memory, for fillTTL at most;
//   - Redis cannot be reached: the event subscription repeats the change until
//     it can, and meanwhile no reader gets an older version than was pushed, see
//     announced; an entry that outlives even that ends with its hash, CacheTTL
//     after the last change to any order in it;
//   - Redis took the change and lost it in a failover: the cache of the server
//     that took over is emptied within a second or two, see watchTakeovers. An
//     event redelivered after that carries what Postgres has by then.
type cache struct {
	rdb     redis.UniversalClient
	ttl     time.Duration
	fillTTL time.Duration
	room    *rate.Limiter // one token per order that may have the long lifetime
	metrics *metrics

	announced announced
}

func newCache(rdb redis.UniversalClient, cfg Config, m *metrics) *cache {
	// The bucket starts with half the orders and gains the other half over one
	// lifetime, so any lifetime admits at most all of them.
	half := cfg.CacheMaxOrders / 2
	return &cache{
		rdb: rdb, ttl: cfg.CacheTTL, fillTTL: fillTTL, metrics: m, announced: announced{versions: freecache.NewCache(race.Cache(cfg.CacheBytes / 2))},
		room: rate.NewLimiter(rate.Limit(float64(half)/cfg.CacheTTL.Seconds()), half),
	}
}

// stay returns which hash that many more orders go to, and for how long.
func (c *cache) stay(orders int) stay {
	if c.room.AllowN(time.Now(), orders) {
		return stay{long: true, lifetime: c.ttl}
	}
	return stay{lifetime: c.fillTTL}
}

// get returns the cached order; false when there is none that is as new as what
// was announced.
func (c *cache) get(ctx context.Context, no ids.ID) (orderevent.Order, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, cacheRead)
	defer cancel()
	found, err := c.read(ctx, []ids.ID{no})
	result := "hit"
	switch {
	case err != nil:
		result, err = "error", fmt.Errorf("order: read cache: %w", err)
	case len(found.orders) == 0 && found.strange > 0:
		result = "error" // this program did not write it; Postgres is authoritative and put.lua replaces it
	case len(found.orders) == 0:
		result = "miss"
	case !c.announced.allows(no, found.orders[0].Version):
		result = "behind" // Redis is back before the put of a change is repeated
	}
	c.metrics.cacheReads.WithLabelValues(result).Inc()
	if result != "hit" {
		return orderevent.Order{}, false, err
	}
	return found.orders[0], true, nil
}

// found is the result of a read.
type found struct {
	orders  []orderevent.Order // the newest version of each, in the order requested
	strange int                // entries that are not orders
}

// read looks for orders in both of their hashes, in one round trip.
func (c *cache) read(ctx context.Context, nos []ids.ID) (f found, err error) {
	asked := make([]*redis.SliceCmd, 0, 2*len(nos))
	_, err = c.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, no := range nos {
			field := string(no[:])
			for _, key := range placeOf(no).keys() {
				asked = append(asked, pipe.HMGet(ctx, key, field))
			}
		}
		return nil
	})
	if err != nil {
		return f, err
	}
	for i, no := range nos {
		var newest orderevent.Order
		for _, cmd := range asked[2*i : 2*i+2] {
			raw, ok := cmd.Val()[0].(string)
			if !ok {
				continue // nil: not in this hash
			}
			o, err := readCached([]byte(raw))
			switch {
			case err != nil || o.No != no:
				f.strange++
			case o.Version > newest.Version:
				newest = o
			}
		}
		if newest.Version > 0 {
			f.orders = append(f.orders, newest)
		}
	}
	return f, nil
}

// putNew stores new orders. An entry that is already there is as new or newer
// and stays. by is the label under which those that became readable are
// counted.
func (c *cache) putNew(ctx context.Context, orders []orderevent.Order, by string) error {
	// If Redis is out of memory there is no older entry that could mislead a
	// reader.
	done, err := c.store(ctx, orders, onlyNew, c.stay(len(orders)))
	c.metrics.visible.WithLabelValues(by).Add(float64(done.stored))
	if err != nil {
		return fmt.Errorf("order: cache new orders: %w", err)
	}
	return nil
}

// put stores changed orders where the cache has an older version or none. It
// returns nil if readers can no longer find an older version, whether or not
// the new one was stored.
func (c *cache) put(ctx context.Context, orders []orderevent.Order) error {
	done, err := c.store(ctx, orders, ifNewer, c.stay(len(orders)))
	return c.counted(done, err)
}

// fill stores what a reader found in Postgres and returns how many orders Redis
// had no memory for.
func (c *cache) fill(ctx context.Context, orders []orderevent.Order) (noRoom int, err error) {
	done, err := c.store(ctx, orders, ifNewer, stay{lifetime: c.fillTTL})
	c.metrics.visible.WithLabelValues(visibleByReader).Add(float64(done.stored))
	return int(done.noRoom), c.counted(done, err)
}

func (c *cache) counted(done stored, err error) error {
	c.metrics.cachePuts.WithLabelValues(putStored).Add(float64(done.stored))
	c.metrics.cachePuts.WithLabelValues(putKept).Add(float64(done.kept))
	c.metrics.cachePuts.WithLabelValues(putNoRoom).Add(float64(done.noRoom))
	if err != nil {
		return fmt.Errorf("order: cache orders: %w", err)
	}
	return nil
}
