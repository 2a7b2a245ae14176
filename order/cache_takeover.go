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
// another one or restarted. Its entries may be older than what shoppers have
// already seen: a replica lacks the last changes, as does a log synced every
// second, and the subscription has long acknowledged the events of these changes.
// There is no way to tell which entries are stale, so all are deleted; Postgres
// answers until the cache is filled again.
func (s *Service) watchTakeovers(ctx context.Context) error {
	takeovers := redisx.NewTakeovers(s.deps.Redis, cacheTakeovers)
	return app.Loop{
		Every: takeoversEvery, Log: s.deps.Log, Failed: "order cache failover check failed",
		Do: func(ctx context.Context) error { return takeovers.Look(ctx, s.cache.empty) },
	}.Run(ctx)
}

// empty removes every cached order of one server.
func (c *cache) empty(ctx context.Context, server redis.Cmdable) error {
	hashes := server.Scan(ctx, 0, cachePrefix+"*", 1000).Iterator()
	for hashes.Next(ctx) {
		// One by one: in a cluster the hashes lie in different slots, and there are
		// few.
		if err := server.Unlink(ctx, hashes.Val()).Err(); err != nil {
			return fmt.Errorf("order: empty the cache: %w", err)
		}
	}
	if err := hashes.Err(); err != nil {
		return fmt.Errorf("order: empty the cache: %w", err)
	}
	return nil
}
