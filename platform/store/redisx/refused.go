package redisx

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"
)

// refusals are how the errors begin with which a server refuses a command before it
// runs it, with what an operator does about each.
var refusals = []struct{ prefix, action string }{
	{"OOM", "it is full, raise its maxmemory or give its machine more memory"},
	{"READONLY", "it is a replica, finish the failover or let the URL name the primary"},
	{"MISCONF", "it cannot save to its disk, make room there"},
	{"NOREPLICAS", "too few replicas follow it, start them or lower min-replicas-to-write"},
	{"LOADING", "it reads its data after a start, wait for it"},
	{"BUSY ", "a script occupies it, end that with SCRIPT KILL"},
	{"MASTERDOWN", "it is a replica without its primary, restore that"},
	{"CLUSTERDOWN", "slots of the cluster have no primary, restore their nodes"},
	{"TRYAGAIN", "slots of the cluster are moving, wait for the end"},
	{"max number of clients", "raise its maxclients"},
}

func refusal(err error) (action string, ok bool) {
	if err == nil {
		return "", false
	}
	for _, r := range refusals {
		if redis.HasErrorPrefix(err, r.prefix) {
			return r.action, true
		}
	}
	return "", false
}

// Refused reports whether err says that a command, or a script with a #! line, was not
// run: the server refused it first, or there was no connection to send it on. After any
// other error it may have run.
func Refused(err error) bool {
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return true
	}
	_, ok := refusal(err)
	return ok
}

// ErrRefuses is Writable's error about a server that answers and takes no writes.
var ErrRefuses = errors.New("Redis refuses writes") //nolint:staticcheck // a name

// writeNothing is refused like every script that writes.
const writeNothing = "#!lua\nreturn 0"

// Writable returns nil if Redis, in a cluster each primary, takes writes; its error says
// what to do. It writes nothing.
func Writable(ctx context.Context, rdb redis.UniversalClient) error {
	try := func(ctx context.Context, node redis.Scripter) error {
		err := node.Eval(ctx, writeNothing, nil).Err()
		if action, ok := refusal(err); ok {
			return fmt.Errorf("%w, %s: %w", ErrRefuses, action, err)
		}
		return err
	}
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return try(ctx, node) })
	}
	return try(ctx, rdb)
}
