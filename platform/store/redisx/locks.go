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

// lockRetry is the mean wait before retrying a taken lock, some ten times the
// shortest work that is worth a lock. Waits are spread over half to one and a
// half of it, so that waiters do not retry at the same moment.
const lockRetry = 20 * time.Millisecond

// Locks acquires locks with redsync: a majority of the nodes decides, and the
// lock of a dead holder expires.
//
// They save work and guarantee nothing. A holder that is suspended for longer
// than its lock lasts, or a node that restarts without its data, lets two
// processes hold it: see Martin Kleppmann, "How to do distributed locking",
// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html.
// Every caller must stay correct in that case and proceed without a lock if
// none can be acquired. An effect that must happen only once needs a unique key
// or a conditional update in Postgres, or platform/store/lease, whose token
// grows and fences.
type Locks struct {
	sync  *redsync.Redsync
	nodes []redis.UniversalClient
}

// OpenLocks uses the servers of the given URLs, which share nothing, or the
// shop's Redis if there are none. A server that does not answer causes a
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
		o.DialTimeout, o.DialerRetries = groupDialTimeout, 1 // as in a group, do not wait long for a dead node
		node := client(o)
		l.nodes, pools = append(l.nodes, node), append(pools, goredis.NewPool(node))
		if err := node.Ping(ctx).Err(); err != nil {
			log.WarnContext(ctx, "lock node does not answer", "address", o.Addrs[0], "error", err)
		}
	}
	l.sync = redsync.New(pools...)
	return l, nil
}

// Acquire takes a lock that expires after the given time, and waits for it
// until ctx ends. If the nodes cannot decide it returns an error immediately.
// An attempt waits for each node a twentieth of the lock's time, redsync's
// default.
func (l *Locks) Acquire(ctx context.Context, key string, lasts time.Duration) (release func(), err error) {
	lock := l.sync.NewMutex(key, redsync.WithExpiry(lasts))
	steady := context.WithoutCancel(ctx) // an interrupted attempt may leave its key on a node
	for {
		err := lock.TryLockContext(steady)
		if err == nil {
			return func() {
				ctx, cancel := context.WithTimeout(steady, lasts/20)
				defer cancel()
				_, _ = lock.UnlockContext(ctx) // a lock that is not released expires
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
