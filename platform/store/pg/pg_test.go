package pg_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"stampede/platform/store/pg"
	"stampede/platform/workshop/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestCloseDoesNotOutlastItsContext holds a connection, as a hanging query
// does: the stop must continue without it.
func TestCloseDoesNotOutlastItsContext(t *testing.T) {
	t.Parallel()
	pool, err := pg.Open(t.Context(), pgtest.DatabaseURL(t), "test", 2)
	if err != nil {
		t.Fatal(err)
	}
	held, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan error, 1)
	go func() { done <- pg.Close(ended, pool) }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("Close reported that every connection was returned")
		}
	case <-time.After(5 * time.Second):
		t.Error("Close waited for the connection")
	}
	held.Release()
}

func TestInstanceLockHasOneHolder(t *testing.T) {
	t.Parallel()
	url := pgtest.DatabaseURL(t)
	first, err := pg.AcquireInstanceLock(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pg.AcquireInstanceLock(t.Context(), url); !errors.Is(err, pg.ErrInstanceLocked) {
		t.Fatalf("second lock: %v, want ErrInstanceLocked", err)
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	second, err := pg.AcquireInstanceLock(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	// The first holder's connection is gone and another has the lock: Watch
	// must report it, which ends the process.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := first.Watch(ctx); !errors.Is(err, pg.ErrInstanceLocked) {
		t.Errorf("Watch = %v, want ErrInstanceLocked", err)
	}
	if err := second.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
