package redlock

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed release.lua
	releaseSource string
	//go:embed extend.lua
	extendSource string

	releaseScript = redis.NewScript(releaseSource)
	extendScript  = redis.NewScript(extendSource)
)

// What an attempt can come to, for errors.Is.
var (
	// ErrTaken: somebody else holds the lock, or several asked at once and nobody
	// got a majority.
	ErrTaken = errors.New("redlock: taken by another")
	// ErrNoQuorum: too few nodes answered to decide anything. Nothing is held; what
	// may have arrived at a node runs out with its time.
	ErrNoQuorum = errors.New("redlock: too few nodes answered")
	// ErrLost: the lock ran out, or is another's by now.
	ErrLost = errors.New("redlock: no longer held")
)

const (
	// A holding counts as over by this share of its time, and by driftLeast, before
	// a node forgets it: the values of the published algorithm. Clocks of servers
	// differ by far less than a hundredth in speed, and Redis forgets to the
	// millisecond.
	driftShare = 0.01
	driftLeast = 2 * time.Millisecond
	// minTime keeps drift and round trips small against the time of a holding.
	minTime = 100 * time.Millisecond
	// maxTime bounds how long a holder that died is waited for.
	maxTime = time.Hour
	// maxNodes bounds the requests of one attempt; five stand the loss of two, and
	// nobody runs nine.
	maxNodes = 9
)

// Config is how locks are taken. The zero value is not valid; start from
// DefaultConfig.
type Config struct {
	// Retry is the mean wait before a taken lock is tried again; the waits are
	// spread over half to one and a half of it, so that those who wait do not come
	// at once. 1 ms … 10 s. Defaults to 20 ms, some ten times what work worth a
	// lock takes at least.
	Retry time.Duration
	// NodeTimeout bounds the request to one node, so that a node that hangs does
	// not use up the time of a lock that the others gave. 1 ms … 10 s. Defaults to
	// 200 ms.
	NodeTimeout time.Duration
}

// DefaultConfig is what the fields' comments say.
func DefaultConfig() Config {
	return Config{Retry: 20 * time.Millisecond, NodeTimeout: 200 * time.Millisecond}
}

// Validate returns every setting that is out of its range, with the range.
func (c Config) Validate() error {
	var errs []error
	if c.Retry < time.Millisecond || c.Retry > 10*time.Second {
		errs = append(errs, fmt.Errorf("redlock: retry is %v; it may be 1ms … 10s", c.Retry))
	}
	if c.NodeTimeout < time.Millisecond || c.NodeTimeout > 10*time.Second {
		errs = append(errs, fmt.Errorf("redlock: node timeout is %v; it may be 1ms … 10s", c.NodeTimeout))
	}
	return errors.Join(errs...)
}

// Locker takes locks on its nodes. Safe for concurrent use.
type Locker struct {
	cfg   Config
	nodes []redis.UniversalClient
}

// New returns a locker over one node, or over several that share nothing: two
// replicas of one server, or two clients of one cluster, are one node. An even
// number of nodes stands no more losses than one fewer and is refused.
func New(cfg Config, nodes ...redis.UniversalClient) (*Locker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if len(nodes) == 0 || len(nodes) > maxNodes || len(nodes)%2 == 0 {
		return nil, fmt.Errorf("redlock: %d nodes given; an odd number up to %d is needed", len(nodes), maxNodes)
	}
	for i, n := range nodes {
		if n == nil {
			return nil, fmt.Errorf("redlock: node %d is nil", i+1)
		}
	}
	return &Locker{cfg: cfg, nodes: nodes}, nil
}

// Acquire takes the lock for a time (100 ms … 1 h) and waits for it until ctx
// ends; the error then is both ErrTaken and ctx's. It does not wait for nodes:
// where they cannot decide it returns ErrNoQuorum at once.
func (l *Locker) Acquire(ctx context.Context, key string, last time.Duration) (*Lock, error) {
	for {
		lock, err := l.Try(ctx, key, last)
		if !errors.Is(err, ErrTaken) {
			return lock, err
		}
		wait := time.NewTimer(l.cfg.Retry/2 + mathrand.N(l.cfg.Retry)) //nolint:gosec // jitter is no secret
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return nil, fmt.Errorf("%w: %w", ErrTaken, ctx.Err())
		}
	}
}

// Try takes the lock for a time (100 ms … 1 h) if it is free.
func (l *Locker) Try(ctx context.Context, key string, last time.Duration) (*Lock, error) {
	if err := check(key, last); err != nil {
		return nil, err
	}
	lock := &Lock{locker: l, key: key, token: rand.Text()}
	ok, errs := lock.ask(ctx, last, func(ctx context.Context, node redis.UniversalClient) (bool, error) {
		err := node.SetArgs(ctx, key, lock.token, redis.SetArgs{Mode: "NX", TTL: last}).Err()
		if errors.Is(err, redis.Nil) {
			return false, nil
		}
		return err == nil, err
	})
	if ok {
		return lock, nil
	}
	// Also where a node gave no answer: the request may have arrived. Those who come next need not wait it out.
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.cfg.NodeTimeout)
	defer cancel()
	_ = lock.Release(undo) // what is not given back runs out
	if len(errs) > len(l.nodes)-l.quorum() {
		return nil, fmt.Errorf("%w: %w", ErrNoQuorum, errors.Join(errs...))
	}
	return nil, ErrTaken
}

func check(key string, last time.Duration) error {
	if key == "" {
		return errors.New("redlock: a lock has a name")
	}
	if last < minTime || last > maxTime {
		return fmt.Errorf("redlock: a lock lasts %v … %v, not %v", minTime, maxTime, last)
	}
	return nil
}

// quorum is how many nodes decide.
func (l *Locker) quorum() int { return len(l.nodes)/2 + 1 }
