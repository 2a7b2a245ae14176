package pg_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestCloseDoesNotOutlastItsContext holds a connection, as a hanging query
// does: the stop must continue without it.
func TestCloseDoesNotOutlastItsContext(t *testing.T) {
	t.Parallel()
	pool, err := pg.Open(t.Context(), pgtest.DatabaseURL(t), "test", 2)
	require.NoError(t, err)
	held, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan error, 1)
	go func() { done <- pg.Close(ended, pool) }()
	select {
	case err := <-done:
		require.Equal(t, "Close reports that every connection was returned", err == nil, false)
	case <-time.After(30 * time.Second):
		t.Error("Close waited for the connection")
	}
	held.Release()
}

// A database that reads only answers a ping.
func TestReadOnlyPostgresIsNotWritable(t *testing.T) {
	t.Parallel()
	pool, err := pg.Open(t.Context(), pgtest.DatabaseURL(t), "test", 1)
	require.NoError(t, err)
	defer pool.Close()
	for _, readOnly := range []bool{false, true, false} {
		pgtest.Exec(t, pool, fmt.Sprintf("SET default_transaction_read_only = %t", readOnly))
		if err := pg.Writable(t.Context(), pool); (err != nil) != readOnly || pool.Ping(t.Context()) != nil {
			t.Errorf("read-only %t: %v", readOnly, err)
		}
	}
	pool.Close()
	require.Equal(t, "a closed pool is writable", pg.Writable(t.Context(), pool) == nil, false)
}

// TestSessionsAreBounded: every connection has the profile, and what the URL
// says about a setting counts.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	url := pgtest.DatabaseURL(t)
	pool, err := pg.Open(t.Context(), url, "test", 2)
	require.NoError(t, err)
	defer pool.Close()
	// Through a unix socket, Postgres shows 0 for the TCP settings that it was given.
	set := pgtest.Read[int](t, pool, `SELECT count(*) FROM pg_settings WHERE name = ANY($1) AND source = 'session'`, pg.SessionSettings())
	require.Equal(t, "settings that are set", set, len(pg.SessionSettings()))

	// A client that vanishes or freezes in a transaction loses its locks.
	short, err := pg.Open(t.Context(), url+"&idle_in_transaction_session_timeout=100&lock_timeout=5000", "test", 2)
	require.NoError(t, err)
	t.Cleanup(short.Close)
	frozen := pgtest.Begin(t, short)
	pgtest.Exec(t, frozen, `SELECT FROM platform.heartbeat FOR UPDATE`)
	pgtest.Exec(t, pool, `SELECT FROM platform.heartbeat FOR UPDATE`)
}

func TestLockWaitTravelsWithBegin(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	err := pg.InTx(t.Context(), pool, func(holder pgx.Tx) error {
		if _, err := holder.Exec(t.Context(), `SELECT FROM platform.heartbeat FOR UPDATE`); err != nil {
			return err
		}
		err := pg.InTxWaiting(t.Context(), pool, 20*time.Millisecond, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `SELECT FROM platform.heartbeat FOR UPDATE`)
			return err
		})
		require.Equal(t, fmt.Sprintf("%v is a lock time-out", err), pg.LockTimedOut(err), true)
		return nil
	})
	require.NoError(t, err)
	// The session had the bound for one transaction.
	require.Equal(t, "lock_timeout after the transaction", pgtest.Read[string](t, pool, `SHOW lock_timeout`), "0")
}

// A statement by key of a partitioned table is planned once, and other transactions of
// the session plan as before.
func TestInTxPlannedOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	const read = `SELECT FROM platform.outbox WHERE id = $1 AND day = $2`
	for range 7 { // the first five are always planned for their parameters by default
		err := pg.InTxPlannedOnce(t.Context(), conn, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), read, ids.New(), time.Now())
			return err
		})
		require.NoError(t, err)
	}
	const plans = `SELECT format('%s %s', generic_plans, custom_plans) FROM pg_prepared_statements WHERE statement = $1`
	require.Equal(t, "calls with the one plan, and with their own", pgtest.Read[string](t, conn, plans, read), "7 0")
	require.Equal(t, "plan_cache_mode after the transactions", pgtest.Read[string](t, conn, `SHOW plan_cache_mode`), "auto")
}

func TestShare(t *testing.T) {
	t.Parallel()
	weights := map[string]int32{"a": 6, "b": 4, "c": 10}
	for budget, want := range map[int32]map[string]int32{
		20: weights, 6: {"a": 2, "b": 2, "c": 2}, 7: {"a": 2, "b": 2, "c": 3}, 40: {"a": 12, "b": 8, "c": 20},
		11: {"a": 4, "b": 2, "c": 5}, // a tie goes to the first
	} {
		require.Equal(t, fmt.Sprintf("%d connections", budget), pg.Share(budget, weights), want)
	}
}
