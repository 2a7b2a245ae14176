package order

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"stampede/order/orderevent"
	"stampede/platform/ids"
)

// sampleLimit bounds how many entries a check looks at; a mistake that the
// program makes would not hide among twenty thousand orders.
const sampleLimit = 20_000

// sample returns cached orders: those of the given numbers, or whichever a scan
// meets first when only is nil. Entries that are no orders are left out.
func (c *cache) sample(ctx context.Context, only []ids.ID) ([]orderevent.Order, error) {
	keys := make([]string, len(only))
	for i, no := range only {
		keys[i] = cacheKey(no)
	}
	if only == nil {
		var err error
		if keys, err = c.scan(ctx); err != nil {
			return nil, err
		}
	}
	var orders []orderevent.Order
	for start := 0; start < len(keys); start += pipelineLimit {
		cmds, err := c.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, key := range keys[start:min(start+pipelineLimit, len(keys))] {
				pipe.Get(ctx, key)
			}
			return nil
		})
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("order: read cached orders: %w", err)
		}
		for _, cmd := range cmds {
			//nolint:errcheck // Get made it
			raw, err := cmd.(*redis.StringCmd).Bytes()
			if err != nil {
				continue
			}
			if o, err := readCached(raw); err == nil {
				orders = append(orders, o)
			}
		}
	}
	return orders, nil
}

// scan lists at most sampleLimit keys of the cache, on every node of a cluster.
func (c *cache) scan(ctx context.Context) ([]string, error) {
	var mu sync.Mutex // a cluster's nodes are scanned at once
	var keys []string
	node := func(ctx context.Context, rdb redis.Cmdable) error {
		it := rdb.Scan(ctx, 0, "o:{*", 1000).Iterator()
		for it.Next(ctx) {
			mu.Lock()
			keys = append(keys, it.Val())
			full := len(keys) >= sampleLimit
			mu.Unlock()
			if full {
				return nil
			}
		}
		return it.Err()
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
	return keys, nil
}
