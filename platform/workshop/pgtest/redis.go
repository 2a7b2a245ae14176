package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// leaseTime is how long a logical database stays taken when its test is killed: longer than the 10 minutes after
	// which `go test` ends a run.
	leaseTime = 15 * time.Minute
	// leaseWait is how long a test waits for a database when all are taken,
	// which only happens on a server with few.
	leaseWait = 30 * time.Second
	// redisTimeout bounds one administrative step.
	redisTimeout = 30 * time.Second
	// leasePrefix is the key prefix of the leases, in database 0.
	leasePrefix = "stampede:test:lease:"
)

// takeLease gives the caller a free database of 1…ARGV[1], in rotation so that
// a released one rests. KEYS[1] is the cursor; ARGV[2] is the caller's token,
// ARGV[3] the lease in milliseconds, ARGV[4] the prefix of the leases. Returns
// the number, 0 if all are taken. Cost: one SET for each taken database on the
// way.
var takeLease = redis.NewScript(`
for _ = 1, ARGV[1] do
  local number = redis.call('INCR', KEYS[1]) % ARGV[1] + 1
  if redis.call('SET', ARGV[4] .. number, ARGV[2], 'NX', 'PX', ARGV[3]) then
    return number
  end
end
return 0`)

// endLease releases a database unless another test has it by now. KEYS[1] is
// the lease, ARGV[1] the token. Returns the number of leases ended.
var endLease = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`)

// Redis returns a client on an empty logical database that is private to this
// test. The client is closed after the test.
func Redis(t testing.TB) *redis.Client {
	t.Helper()
	client, err := newClient(RedisURL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // the test may have closed it already
	return client
}

// RedisURL returns the URL of an empty logical database that is private to this
// test until it ends. Never use FLUSHALL: it empties the other tests'
// databases, too.
func RedisURL(t testing.TB) string {
	t.Helper()
	server := join(t).RedisURL
	number, token, err := lease(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := endOf(server, number, token); err != nil {
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

// lease takes a logical database and empties it.
func lease(server string) (number int, token string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), leaseWait)
	defer cancel()
	registry, err := newClient(withNumber(server, 0))
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = registry.Close() }() // its work is done
	count, err := databasesOf(ctx, registry)
	if err != nil {
		return 0, "", err
	}
	token = rand.Text()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		number, err = takeLease.Run(ctx, registry, []string{"stampede:test:cursor"}, count, token, leaseTime.Milliseconds(), leasePrefix).Int()
		if err != nil {
			return 0, "", fmt.Errorf("pgtest: take a Redis database: %w", err)
		}
		if number > 0 {
			break
		}
		select {
		case <-ctx.Done():
			return 0, "", fmt.Errorf("pgtest: all %d Redis databases are taken by other tests", count)
		case <-tick.C:
		}
	}
	if err := empty(ctx, server, number); err != nil {
		return 0, "", errors.Join(err, endOf(server, number, token))
	}
	return number, token, nil
}

// databasesOf returns how many databases can be leased. Database 0 cannot: it
// contains the leases.
func databasesOf(ctx context.Context, registry *redis.Client) (int, error) {
	const usual = 16 // Redis's default, also assumed for a server that hides its settings
	answer, err := registry.ConfigGet(ctx, "databases").Result()
	if err != nil {
		if _, refused := errors.AsType[redis.Error](err); refused {
			return usual - 1, nil
		}
		return 0, fmt.Errorf("pgtest: connect to Redis: %w", err)
	}
	count, err := strconv.Atoi(answer["databases"])
	if err != nil || count < 2 {
		return 0, fmt.Errorf("pgtest: the Redis server has %q databases, tests need at least 2", answer["databases"])
	}
	return count - 1, nil
}

// empty deletes everything in a logical database.
func empty(ctx context.Context, server string, number int) error {
	client, err := newClient(withNumber(server, number))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // its work is done
	if err := client.FlushDB(ctx).Err(); err != nil {
		return fmt.Errorf("pgtest: empty Redis database %d: %w", number, err)
	}
	return nil
}

// endOf empties a database, to free its memory, and releases it.
func endOf(server string, number int, token string) error {
	ctx, cancel := context.WithTimeout(context.Background(), redisTimeout)
	defer cancel()
	registry, err := newClient(withNumber(server, 0))
	if err != nil {
		return err
	}
	defer func() { _ = registry.Close() }() // its work is done
	key := leasePrefix + strconv.Itoa(number)
	owner, err := registry.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) || (err == nil && owner != token) {
		return nil // the test outlived its lease: the database may belong to another test by now
	}
	if err != nil {
		return err
	}
	if err := empty(ctx, server, number); err != nil {
		return err
	}
	return endLease.Run(ctx, registry, []string{key}, token).Err()
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
