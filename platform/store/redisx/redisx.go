// Package redisx opens Redis by URL: one server, a sentinel group or a cluster.
//
// # What a failover means
//
// Redis replicates after it has answered. A replica that takes over may lack
// the last grants that its primary gave, and no command (not even WAIT, which
// confirms only that a replica received something) makes the two agree. So
// nothing here relies on it: a server that takes over has another run id, every
// item loaded before refuses to decide (503 fenced), and a Load brings it back
// from Postgres and from the grants in NATS, which were stored before any
// shopper got a 202. The sale is unavailable for as long as the group takes to
// notice and elect, about a second for the client to follow, and, with several
// instances, the publish deadline, because another one may still be publishing
// what it was granted.
//
// A primary that is cut off without knowing it continues to grant under its old
// epoch. Postgres has left that epoch behind once the new primary is loaded:
// attempts that got a 202 meanwhile end refused (interrupted), and nothing is
// oversold. min-replicas-to-write and min-replicas-max-lag bound how long this
// lasts.
//
// Copies in Redis that are not fenced, such as the order cache, may go back in
// time in a failover. Their owners detect it through Takeovers and start over.
//
// # What the operator must configure
//
//   - every server, replicas too: appendonly yes, appendfsync always,
//     maxmemory-policy noeviction. Check reads them, in a cluster from every node,
//     under sentinels from the primary.
//   - sentinels: three or more, a quorum of two, on three machines.
//     down-after-milliseconds is the greatest part of a sale's downtime;
//     the default of 30 s is too long for one.
//   - a cluster: cluster-require-full-coverage no, so that the items of the other
//     nodes keep selling; cluster-node-timeout is what down-after-milliseconds is
//     above.
//   - two replicas or more: min-replicas-to-write 1. With a single replica this
//     would stop the sale when the replica stops.
//
// # Clusters
//
// The keys that one script or transaction touches are in one slot: an item's
// keys, those of all items of an activity under one rule, the rate limits.
// While one node is down, the items on the others sell; a slot may move during
// a sale.
package redisx

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/base/app"
)

// MinMajor is the oldest major version of Redis whose script flags and
// commands Stampede uses.
const MinMajor = 7

// poolSize is the most connections one process opens per node: lanes use two
// per item on sale, everything else shares the rest.
const poolSize = 64

// noRetries keeps the client from retrying commands on its own. A script whose
// answer was lost may have run, and the answer of a second run would be
// misleading. Only the caller knows whether a retry is safe. A cluster client
// counts redirections as retries, so there the hook "once" does this.
const noRetries = -1

func init() {
	// The client's own log lines repeat errors that it returns, and those are
	// logged with their context.
	redis.SetLogger(silent{})
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// Open connects to what url names:
//
//	redis://[user:pass@]host:6379/0            one server (rediss:// for TLS)
//	unix:///path/to/socket?db=0                one server over a unix socket
//	redis-sentinel://host:26379,host2:26379/0?master=name
//	redis-cluster://host:6379,host2:6379
//
// Sentinel and cluster URLs take rediss-… for TLS through ?tls=true.
func Open(ctx context.Context, url string) (redis.UniversalClient, error) {
	opts, err := Parse(url)
	if err != nil {
		return nil, err
	}
	rdb := client(opts)
	if err := rdb.Ping(ctx).Err(); err != nil {
		_ = rdb.Close()
		return nil, fmt.Errorf("redisx: connect: %w", err)
	}
	return rdb, nil
}

// OpenFor is Open for the process a, which closes the client when it stops and
// names "redis" in its readiness.
func OpenFor(ctx context.Context, a *app.App, url string) (redis.UniversalClient, error) {
	rdb, err := Open(ctx, url)
	if err != nil {
		return nil, err
	}
	a.OnStop("redis", func(context.Context) error { return rdb.Close() })
	a.OnReady("redis", func(ctx context.Context) error { return Writable(ctx, rdb) })
	return rdb, nil
}

// Parse turns a URL into options; see Open for the forms.
func Parse(raw string) (*redis.UniversalOptions, error) {
	scheme, _, ok := strings.Cut(raw, "://")
	if !ok {
		return nil, fmt.Errorf("redisx: a Redis URL starts with redis://, rediss://, unix://, redis-sentinel:// or redis-cluster://")
	}
	switch scheme {
	case "redis", "rediss", "unix":
		o, err := redis.ParseURL(raw)
		if err != nil {
			return nil, fmt.Errorf("redisx: parse Redis URL: %w", err)
		}
		return &redis.UniversalOptions{
			Addrs: []string{o.Addr}, DB: o.DB, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
			Dialer: dialerFor(o), PoolSize: poolSize, ContextTimeoutEnabled: true, MaxRetries: noRetries,
		}, nil
	case "redis-sentinel", "redis-cluster":
		return parseGroup(raw, scheme)
	default:
		return nil, fmt.Errorf("redisx: unknown scheme %q; a Redis URL starts with redis://, rediss://, unix://, redis-sentinel:// or redis-cluster://", scheme)
	}
}

// dialerFor keeps the network of a unix-socket URL, which UniversalOptions has
// no field for.
func dialerFor(o *redis.Options) func(context.Context, string, string) (net.Conn, error) {
	if o.Network != "unix" {
		return nil
	}
	d := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: time.Minute} // the client's defaults for TCP
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", o.Addr) }
}

func parseGroup(raw, scheme string) (*redis.UniversalOptions, error) {
	// net/url refuses several ports in one host, so the host list is cut out first.
	rest := strings.TrimPrefix(raw, scheme+"://")
	auth := ""
	if i := strings.LastIndex(rest, "@"); i >= 0 {
		auth, rest = rest[:i+1], rest[i+1:]
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	addrs := strings.Split(rest[:end], ",")
	u, err := url.Parse("redis://" + auth + "host" + rest[end:])
	if err != nil {
		return nil, fmt.Errorf("redisx: parse Redis URL: %w", err)
	}
	for _, a := range addrs {
		if a == "" || !strings.Contains(a, ":") {
			return nil, fmt.Errorf("redisx: every address of a %s URL must be host:port, got %q", scheme, a)
		}
	}
	o := &redis.UniversalOptions{
		Addrs: addrs, PoolSize: poolSize, ContextTimeoutEnabled: true, MaxRetries: noRetries,
		DialTimeout: groupDialTimeout, DialerRetries: 1,
	}
	o.Username = u.User.Username()
	o.Password, _ = u.User.Password()
	if u.Query().Get("tls") == "true" {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if scheme == "redis-cluster" {
		o.IsClusterMode = true
		return o, nil
	}
	if o.MasterName = u.Query().Get("master"); o.MasterName == "" {
		return nil, fmt.Errorf("redisx: a redis-sentinel URL must name its group with ?master=…")
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		if _, err := fmt.Sscanf(db, "%d", &o.DB); err != nil {
			return nil, fmt.Errorf("redisx: the path of a redis-sentinel URL must be a database number, got %q", db)
		}
	}
	return o, nil
}
