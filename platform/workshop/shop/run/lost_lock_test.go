package run

import (
	"strings"
	"testing"
	"time"

	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// TestOneEmbeddedBusPerDatabase: two would each carry part of the messages. A
// second server is refused, whatever its bus, and one that lost the instance lock exits. Its
// successor takes the lock as if it had been started while the server was cut
// off from Postgres.
func TestOneEmbeddedBusPerDatabase(t *testing.T) {
	t.Parallel()
	databaseURL, redisURL := pgtest.DatabaseURL(t), pgtest.RedisURL(t)
	in := shop.Serve(t, databaseURL, redisURL)
	const refusal = "another stampede serves this database, and one with an embedded NATS must be alone"
	for _, bus := range []string{"--nats-dir=" + t.TempDir(), "--nats-url=" + bustest.StartServer(t).URL} {
		out, errs := shop.NewConsole(), shop.NewConsole()
		if code := shop.Run(t.Context(), []string{
			"serve", "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--database-url=" + databaseURL, "--redis-url=" + redisURL,
			"--signing-key=" + shop.Key, bus,
		}, out, errs); code != 1 || !strings.Contains(errs.String(), refusal) {
			t.Errorf("a second server with %s: exit %d, want 1 with %q:\n%s", bus, code, refusal, errs)
		}
	}

	successor := pgtest.Connect(t, databaseURL)
	other := pgtest.Connect(t, databaseURL)

	const lock = int64(0x7374616d70656465) // "stampede" in ASCII
	const mine = `FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND (classid::bigint << 32 | objid::bigint) = $1`
	holder := pgtest.Read[int32](t, other, `SELECT pid `+mine+` AND granted`, lock)
	taken := make(chan error, 1)
	go func() {
		_, err := successor.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, lock)
		taken <- err
	}()
	// The successor queues for the lock before the holder's connection breaks,
	// so that the server cannot reacquire it.
	pgtest.Eventually(t, 30*time.Second, func() bool {
		return pgtest.Read[bool](t, other, `SELECT EXISTS (SELECT `+mine+` AND NOT granted)`, lock)
	}, "the successor to wait for the lock")
	pgtest.Exec(t, other, `SELECT pg_terminate_backend($1)`, holder)
	require.NoError(t, <-taken)
	select {
	case <-in.Ended:
	case <-time.After(36 * time.Second): // three times: noticed within 2 s, stopped within 10 s
		t.Fatal("the server continues without the instance lock")
	}
	require.Equal(t, "exit code", in.Stop(), 1)
	require.Contains(t, "the errors", in.Err.String(), refusal)
}

// A second server whose key the first does not accept would refuse a share of its logins: it does not start.
func TestServersShareTheSigningKey(t *testing.T) {
	t.Parallel()
	databaseURL, redisURL, natsURL := pgtest.DatabaseURL(t), pgtest.RedisURL(t), bustest.StartServer(t).URL
	in := shop.Serve(t, databaseURL, redisURL, "--nats-url="+natsURL, "--public-url=http://127.0.0.1:8080")
	require.Contains(t, "the output behind a proxy", in.Out.String(), "serves http://127.0.0.1:8080; listens at 127.0.0.1:")
	out, errs := shop.NewConsole(), shop.NewConsole()
	code := shop.Run(t.Context(), []string{
		"serve", "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--database-url=" + databaseURL, "--redis-url=" + redisURL,
		"--signing-key=" + strings.Repeat("another key ", 4), "--nats-url=" + natsURL,
	}, out, errs)
	require.Equal(t, "exit code", code, 38)
	require.Contains(t, "the errors", errs.String(), "this instance does not fit those that serve this database: the logins that instance 127.0.0.1:")
}
