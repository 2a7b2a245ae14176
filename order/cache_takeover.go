package order

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/base/app"
	"stampede/platform/store/redisx"
)

// takeoversEvery is how soon the cache is emptied after a failover: a change has
// to be visible within a second.
const takeoversEvery = time.Second

// watchTakeovers empties the cache of every Redis server that took over from
// another one or started again. What it has may be older than what was told
// before: a replica lacks the last changes, a log synced every second as well, and
// the subscription that brought these changes has long been acknowledged. Which
// entries these are cannot be seen, so all of them go; Postgres answers until they
// are back.
func (s *Service) watchTakeovers(ctx context.Context) error {
	takeovers := redisx.NewTakeovers(s.deps.Redis, "order-cache:")
	return app.Loop{
		Every: takeoversEvery, Log: s.deps.Log, Failed: "order cache not looked after",
		Do: func(ctx context.Context) error { return takeovers.Look(ctx, s.cache.empty) },
	}.Run(ctx)
}

// empty removes every cached order of one server.
func (c *cache) empty(ctx context.Context, server redis.Cmdable) error {
	hashes := server.Scan(ctx, 0, cachePrefix+"*", 1000).Iterator()
	for hashes.Next(ctx) {
		// One by one: in a cluster they lie in different slots, and there are few.
		if err := server.Unlink(ctx, hashes.Val()).Err(); err != nil {
			return fmt.Errorf("order: empty the cache: %w", err)
		}
	}
	if err := hashes.Err(); err != nil {
		return fmt.Errorf("order: empty the cache: %w", err)
	}
	return nil
}
