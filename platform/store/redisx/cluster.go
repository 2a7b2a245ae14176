package redisx

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// groupDialTimeout is how long a server of a group may take to accept a
	// connection. A powered-off machine does not even refuse, and the client
	// does not look for its successor until the attempt times out.
	groupDialTimeout = time.Second
	// clusterLooksEvery is how old a client's view of the cluster may be. A
	// dead node sends no redirections, so only this view leads to the replica
	// that has taken over; the client's default of a minute would be the length
	// of every outage. One refresh costs a node some microseconds.
	clusterLooksEvery = time.Second
)

// client creates the client that fits the options.
func client(o *redis.UniversalOptions) redis.UniversalClient {
	if !o.IsClusterMode {
		return redis.NewUniversalClient(o)
	}
	cluster := o.Cluster()
	cluster.ClusterStateReloadInterval = clusterLooksEvery
	cluster.NewClient = func(o *redis.Options) *redis.Client {
		node := redis.NewClient(o)
		node.AddHook(once{})
		return node
	}
	return redis.NewClusterClient(cluster)
}

// ErrNoAnswer means that a cluster node may or may not have executed a command.
var ErrNoAnswer = errors.New("redisx: no answer from the node")

// once keeps a cluster client from resending a command whose answer was lost.
// That client has one limit for both redirections, which must be followed, and
// retries, which noRetries forbids. It retries errors that it recognizes as
// network errors, so once replaces these by ErrNoAnswer. Errors of commands
// that were certainly not executed are left unchanged. Pipelines take another
// path inside the client and may be sent twice; their callers must tolerate
// that.
type once struct{}

func (once) DialHook(next redis.DialHook) redis.DialHook { return next }

func (once) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (once) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil || !unclear(err) {
			return err
		}
		return fmt.Errorf("%w: %v", ErrNoAnswer, err) //nolint:errorlint // hidden on purpose, see once
	}
}

// unclear reports whether a command may have been executed although it failed.
func unclear(err error) bool {
	if _, answered := errors.AsType[redis.Error](err); answered {
		return false
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return false
	}
	for _, harmless := range []error{
		redis.ErrPoolTimeout, redis.ErrPoolExhausted, redis.ErrClosed, // not sent
		context.Canceled, context.DeadlineExceeded, // not retried, and callers check for them
	} {
		if errors.Is(err, harmless) {
			return false
		}
	}
	return true
}
