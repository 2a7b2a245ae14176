package order

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
)

// sampleLimit bounds how many entries a check reads; a systematic mistake would
// show among twenty thousand orders.
const sampleLimit = 20_000

// sample returns cached orders: those of the given numbers, or the first that a
// scan meets if only is nil. Entries that are not orders are left out.
func (c *cache) sample(ctx context.Context, only []ids.ID) ([]orderevent.Order, error) {
	if only == nil {
		return c.scan(ctx)
	}
	var orders []orderevent.Order
	for part := range slices.Chunk(only, storeLimit) {
		found, err := c.read(ctx, part)
		if err != nil {
			return nil, fmt.Errorf("order: read cached orders: %w", err)
		}
		orders = append(orders, found.orders...)
	}
	return orders, nil
}

// scan reads at most sampleLimit orders of the cache, on every node of a cluster.
func (c *cache) scan(ctx context.Context) ([]orderevent.Order, error) {
	var mu sync.Mutex // a cluster's nodes are scanned concurrently
	var orders []orderevent.Order
	node := func(ctx context.Context, rdb redis.Cmdable) error {
		hashes := rdb.Scan(ctx, 0, cachePrefix+"*", 1000).Iterator()
		for hashes.Next(ctx) {
			entries := rdb.HScan(ctx, hashes.Val(), 0, "", 1000).Iterator()
			for field := true; entries.Next(ctx); field = !field {
				if field {
					continue
				}
				o, err := readCached([]byte(entries.Val()))
				if err != nil {
					continue
				}
				mu.Lock()
				orders = append(orders, o)
				full := len(orders) >= sampleLimit
				mu.Unlock()
				if full {
					return nil
				}
			}
			if err := entries.Err(); err != nil {
				return err
			}
		}
		return hashes.Err()
	}
	var err error
	if cluster, ok := c.rdb.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, rdb *redis.Client) error { return node(ctx, rdb) })
	} else {
		err = node(ctx, c.rdb)
	}
	if err != nil {
		return nil, fmt.Errorf("order: scan the cache: %w", err)
	}
	return orders, nil
}
