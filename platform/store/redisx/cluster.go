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
	// connection. A machine without power does not even refuse, and until it is
	// given up on nobody looks for its successor.
	groupDialTimeout = time.Second
	// clusterLooksEvery is how old a client's picture of the cluster may be. A
	// node that is dead sends nobody elsewhere, so this picture alone leads to the
	// replica that has taken over; the client's own minute would be the length of
	// every outage. One look costs a node some microseconds.
	clusterLooksEvery = time.Second
)

// client makes the client that the options are for.
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

// ErrNoAnswer says that a cluster's node may or may not have carried a command out.
var ErrNoAnswer = errors.New("redisx: no answer from the node")

// once keeps a cluster's client from sending a command again when its answer was
// lost. That client has one number for redirections, which have to be followed,
// and for repetitions, which noRetries forbids. It repeats what it recognises as
// an error of the network, so those are told in other words. What was certainly
// not carried out stays as it is. Pipelines go their own way inside the client
// and may be sent twice; whoever makes one must bear that.
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

// unclear reports whether a command may have been carried out although it failed.
func unclear(err error) bool {
	if _, answered := errors.AsType[redis.Error](err); answered {
		return false
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return false
	}
	for _, harmless := range []error{
		redis.ErrPoolTimeout, redis.ErrPoolExhausted, redis.ErrClosed, // not sent
		context.Canceled, context.DeadlineExceeded, // not repeated, and callers ask for them
	} {
		if errors.Is(err, harmless) {
			return false
		}
	}
	return true
}
