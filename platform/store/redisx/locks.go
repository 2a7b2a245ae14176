package redisx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"stampede/platform/base/app"
)

// lockRetry is the mean wait before a taken lock is tried again, some ten times
// what work worth a lock takes at least. The waits are spread over half to one and
// a half of it, so that those who wait do not come at once.
const lockRetry = 20 * time.Millisecond

// Locks are taken by redsync: a majority of the nodes decides, and a lock whose
// holder died runs out.
//
// They save work and order nothing. A holder that is stopped for longer than its
// lock lasts, or a node that restarts without its data, lets two hold it: see
// Martin Kleppmann, "How to do distributed locking",
// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html. Every
// caller must stay correct then and go on without a lock where none is to be had.
// What must happen once needs a unique key or a conditional update in Postgres, or
// platform/store/lease, whose token grows and fences.
type Locks struct {
	sync  *redsync.Redsync
	nodes []redis.UniversalClient
}

// OpenLocks takes locks on the servers of the given URLs, which share nothing, or
// on shop's Redis where there are none. A server that does not answer is a
// warning: the others decide without it.
func OpenLocks(ctx context.Context, log *slog.Logger, shop redis.UniversalClient, urls ...string) (*Locks, error) {
	l := &Locks{}
	pools := []redsyncredis.Pool{goredis.NewPool(shop)}
	if len(urls) > 0 {
		pools = nil
	}
	for _, url := range urls {
		o, err := Parse(url)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		o.DialTimeout, o.DialerRetries = groupDialTimeout, 1 // as in a group, the others need not wait for a dead one
		node := client(o)
		l.nodes, pools = append(l.nodes, node), append(pools, goredis.NewPool(node))
		if err := node.Ping(ctx).Err(); err != nil {
			log.WarnContext(ctx, "lock node does not answer", "address", o.Addrs[0], "error", err)
		}
	}
	l.sync = redsync.New(pools...)
	return l, nil
}

// Acquire takes a lock that runs out by itself after a time and waits for it until
// ctx ends. Where the nodes cannot decide it returns an error at once. An attempt
// waits for a node a twentieth of the lock's time, redsync's default.
func (l *Locks) Acquire(ctx context.Context, key string, lasts time.Duration) (release func(), err error) {
	lock := l.sync.NewMutex(key, redsync.WithExpiry(lasts))
	steady := context.WithoutCancel(ctx) // an attempt that is broken off may leave its key on a node
	for {
		err := lock.TryLockContext(steady)
		if err == nil {
			return func() {
				ctx, cancel := context.WithTimeout(steady, lasts/20)
				defer cancel()
				_, _ = lock.UnlockContext(ctx) // what is not given back runs out
			}, nil
		}
		_, taken := errors.AsType[*redsync.ErrTaken](err)
		_, split := errors.AsType[*redsync.ErrNodeTaken](err)
		if !taken && !split {
			return nil, fmt.Errorf("redisx: take lock %s: %w", key, err)
		}
		if end := app.Sleep(ctx, lockRetry/2+rand.N(lockRetry)); end != nil { //nolint:gosec // jitter is no secret
			return nil, fmt.Errorf("redisx: wait for lock %s: %w", key, errors.Join(end, err))
		}
	}
}

// Close closes the connections to the nodes other than the shop's Redis.
func (l *Locks) Close() error {
	var errs []error
	for _, node := range l.nodes {
		errs = append(errs, node.Close())
	}
	return errors.Join(errs...)
}
