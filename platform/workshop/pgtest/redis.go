package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"stampede/platform/base/app"
	"stampede/platform/workshop/require"
)

const (
	// leaseTime is how long a logical database stays taken when its test is killed: longer than the 10 minutes after
	// which `go test` ends a run, so that no test outlives its lease.
	leaseTime = 15 * time.Minute
	// leaseWait is how long a test waits for a database when all are taken,
	// which only happens on a server with few.
	leaseWait = 30 * time.Second
	// leasePrefix is the key prefix of the leases, in database 0.
	leasePrefix = "stampede:test:lease:"
)

// Redis returns a client on an empty logical database that is private to this
// test. The client is closed after the test.
func Redis(t testing.TB) *redis.Client {
	t.Helper()
	return RedisAt(t, RedisURL(t))
}

// RedisAt returns a client of the Redis at a URL, which is closed after the test.
func RedisAt(t testing.TB, url string) *redis.Client {
	t.Helper()
	client, err := newClient(url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // the test may have closed it already
	return client
}

// RedisURL returns the URL of an empty logical database that is private to this
// test until it ends. Never use FLUSHALL: it empties the other tests'
// databases, too.
func RedisURL(t testing.TB) string {
	t.Helper()
	server := join(t).RedisURL
	registry := func(do func(context.Context, *redis.Conn) error) error {
		client, err := newClient(withNumber(server, 0))
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }() // its work is done
		ctx, cancel := context.WithTimeout(context.Background(), leaseWait)
		defer cancel()
		conn := client.Conn()
		defer func() { _ = conn.Close() }() // back to the client
		return do(ctx, conn)
	}
	var number int
	if err := registry(func(ctx context.Context, conn *redis.Conn) (err error) {
		if number, err = lease(ctx, conn); err != nil {
			return err
		}
		return empty(ctx, conn, number)
	}); err != nil {
		t.Fatalf("pgtest: take a Redis database: %v", err)
	}
	t.Cleanup(func() {
		if err := registry(func(ctx context.Context, conn *redis.Conn) error {
			err := empty(ctx, conn, number) // which frees its memory
			return errors.Join(err, conn.Select(ctx, 0).Err(), conn.Del(ctx, leasePrefix+strconv.Itoa(number)).Err())
		}); err != nil {
			t.Errorf("pgtest: release a Redis database: %v", err)
		}
	})
	return withNumber(server, number)
}

// newClient returns a client without background work: no maintenance
// notifications, which these servers never send.
func newClient(rawURL string) (*redis.Client, error) {
	opts, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("pgtest: Redis URL: %w", err)
	}
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(opts), nil
}

// lease takes a logical database, in rotation so that a released one rests. Database 0
// contains the leases.
func lease(ctx context.Context, registry *redis.Conn) (number int, err error) {
	answer, err := registry.ConfigGet(ctx, "databases").Result()
	if err != nil {
		return 0, err
	}
	count, err := strconv.ParseInt(answer["databases"], 10, 32)
	if err != nil || count < 2 {
		return 0, fmt.Errorf("the server has %q databases, tests need at least 2", answer["databases"])
	}
	for {
		next, err := registry.Incr(ctx, "stampede:test:cursor").Result()
		if err != nil {
			return 0, err
		}
		number := int(next%(count-1)) + 1
		if free, err := registry.SetNX(ctx, leasePrefix+strconv.Itoa(number), "", leaseTime).Result(); free || err != nil {
			return number, err
		}
		if err := app.Sleep(ctx, pollEvery); err != nil {
			return 0, fmt.Errorf("all %d are taken by other tests", count-1)
		}
	}
}

// empty deletes everything in a logical database, which stays selected.
func empty(ctx context.Context, conn *redis.Conn, number int) error {
	if err := conn.Select(ctx, number).Err(); err != nil {
		return err
	}
	return conn.FlushDB(ctx).Err()
}

// withNumber replaces the logical database in a Redis URL.
func withNumber(server string, number int) string {
	u, err := url.Parse(server)
	if err != nil {
		return server // redis.ParseURL will report the error
	}
	if u.Scheme == "unix" {
		query := u.Query()
		query.Set("db", strconv.Itoa(number))
		u.RawQuery = query.Encode()
		return u.String()
	}
	u.Path = "/" + strconv.Itoa(number)
	return u.String()
}
