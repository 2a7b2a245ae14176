package pgtest_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) {
	pgtest.Main(m, func() error { return goleak.Find() })
}

func TestDatabasesAreMigratedAndIsolated(t *testing.T) {
	t.Parallel()
	one, other := pgtest.DB(t), pgtest.DB(t)
	var tables int
	err := one.QueryRow(t.Context(), "SELECT count(*) FROM pg_tables WHERE schemaname = 'platform' AND tablename = 'leases'").Scan(&tables)
	require.NoError(t, err)
	require.Equal(t, "migrated tables", tables, 1)
	pgtest.Exec(t, one, "CREATE TABLE mine (n int)")
	var seen bool
	require.NoError(t, other.QueryRow(t.Context(), "SELECT to_regclass('mine') IS NOT NULL").Scan(&seen))
	require.Equal(t, "a table of one test visible to another", seen, false)
}

func TestDatabaseIsDroppedWithItsTest(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("user", func(t *testing.T) {
		require.NoError(t, pgtest.DB(t).QueryRow(t.Context(), "SELECT current_database()").Scan(&name))
	})
	var exists bool
	err := pgtest.DB(t).QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists)
	require.NoError(t, err)
	require.Equal(t, name+" is there", exists, false)
}

func TestRedisDatabasesAreEmptyAndIsolated(t *testing.T) {
	t.Parallel()
	const tests = 40
	var wg sync.WaitGroup
	for range tests {
		wg.Go(func() {
			client := pgtest.Redis(t)
			if n, err := client.DBSize(t.Context()).Result(); err != nil || n != 0 {
				t.Errorf("not empty: %d keys, %v", n, err)
			}
			if n, err := client.Incr(t.Context(), "mine").Result(); err != nil || n != 1 {
				t.Errorf("shared with another test: %d, %v", n, err)
			}
		})
	}
	wg.Wait()
}

func TestEventually(t *testing.T) {
	t.Parallel()
	calls := 0
	pgtest.Eventually(t, time.Second, func() bool { calls++; return calls == 3 }, "three calls")
	require.Equal(t, "calls", calls, 3)

	failed := make(chan string, 1)
	go func() {
		spy := &spy{TB: t}
		defer func() { failed <- spy.text }()
		pgtest.Eventually(spy, 20*time.Millisecond, func() bool { return false }, "pigs fly")
	}()
	require.Equal(t, "said", <-failed, "did not happen within 20ms: pigs fly")
}

func BenchmarkDB(b *testing.B) {
	for b.Loop() {
		pgtest.DatabaseURL(b)
	}
}

// spy is a test that is expected to fail.
type spy struct {
	testing.TB
	text     string
	cleanups []func()
}

func (s *spy) Helper()           {}
func (s *spy) Cleanup(fn func()) { s.cleanups = append(s.cleanups, fn) }

func (s *spy) Errorf(format string, args ...any) { s.text = fmt.Sprintf(format, args...) }

// Fatalf ends the goroutine, as that of a real test does.
func (s *spy) Fatalf(format string, args ...any) {
	s.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (s *spy) Fatal(args ...any) {
	s.text = fmt.Sprint(args...)
	runtime.Goexit()
}

// finish runs the cleanups, last first.
func (s *spy) finish() {
	for _, cleanup := range slices.Backward(s.cleanups) {
		cleanup()
	}
}
