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
