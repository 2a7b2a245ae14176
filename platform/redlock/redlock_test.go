package redlock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/pgtest"
	"stampede/platform/redlock"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// nodes are n independent stores: an empty logical database each.
func nodes(t *testing.T, n int) []redis.UniversalClient {
	t.Helper()
	list := make([]redis.UniversalClient, n)
	for i := range list {
		list[i] = pgtest.Redis(t)
	}
	return list
}

// dead is a node that nobody listens at.
func dead(t *testing.T) redis.UniversalClient {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func locker(t *testing.T, on ...redis.UniversalClient) *redlock.Locker {
	t.Helper()
	cfg := redlock.DefaultConfig()
	cfg.NodeTimeout = 5 * time.Second // no node here hangs; the machine may be busy with other tests
	l, err := redlock.New(cfg, on...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func take(t *testing.T, l *redlock.Locker, last time.Duration) *redlock.Lock {
	t.Helper()
	lock, err := l.Try(t.Context(), "k", last)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// gone waits until a node has forgotten the lock.
func gone(t *testing.T, node redis.UniversalClient) {
	t.Helper()
	pgtest.Eventually(t, 5*time.Second, func() bool { return node.Exists(t.Context(), "k").Val() == 0 }, "the lock runs out")
}

func TestOneHoldsItAndGivesItBack(t *testing.T) {
	t.Parallel()
	l := locker(t, nodes(t, 1)...)
	start := time.Now()
	lock := take(t, l, time.Minute)
	if u := lock.Until(); u.Before(start.Add(59*time.Second)) || !u.Before(time.Now().Add(time.Minute)) {
		t.Errorf("holds until %v after it was taken", u.Sub(start))
	}
	if _, err := l.Try(t.Context(), "k", time.Second); !errors.Is(err, redlock.ErrTaken) {
		t.Errorf("a second holder got %v, want ErrTaken", err)
	}
	if _, err := l.Try(t.Context(), "other", time.Minute); err != nil {
		t.Errorf("another name: %v", err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Error(err)
	}
	take(t, l, time.Minute)
	if err := lock.Release(t.Context()); !errors.Is(err, redlock.ErrLost) {
		t.Errorf("a second release said %v, want ErrLost", err)
	}
}

func TestALateReleaseLeavesTheNextHolderAlone(t *testing.T) {
	t.Parallel()
	node := nodes(t, 1)
	l := locker(t, node...)
	slow := take(t, l, time.Minute)
	if err := node[0].PExpire(t.Context(), "k", time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	gone(t, node[0])
	next := take(t, l, time.Minute)
	if err := slow.Release(t.Context()); !errors.Is(err, redlock.ErrLost) {
		t.Errorf("the late release said %v, want ErrLost", err)
	}
	if err := slow.Extend(t.Context(), time.Minute); !errors.Is(err, redlock.ErrLost) {
		t.Errorf("the late extension said %v, want ErrLost", err)
	}
	if err := next.Extend(t.Context(), time.Minute); err != nil {
		t.Errorf("the next holder lost its lock to the late one: %v", err)
	}
}

func TestExtendKeepsIt(t *testing.T) {
	t.Parallel()
	node := nodes(t, 1)
	lock := take(t, locker(t, node...), 5*time.Second)
	before := lock.Until()
	if err := lock.Extend(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if left := node[0].PTTL(t.Context(), "k").Val(); left < 50*time.Second {
		t.Errorf("the node forgets it in %v", left)
	}
	if !lock.Until().After(before.Add(45 * time.Second)) {
		t.Errorf("holds until %v, was %v", lock.Until(), before)
	}
	if err := node[0].Del(t.Context(), "k").Err(); err != nil {
		t.Fatal(err)
	}
	was := lock.Until()
	if err := lock.Extend(t.Context(), time.Hour); !errors.Is(err, redlock.ErrLost) || !lock.Until().Equal(was) {
		t.Errorf("extending what ran out: %v, until moved by %v", err, lock.Until().Sub(was))
	}
}

func TestAMajorityDecides(t *testing.T) {
	t.Parallel()
	up := nodes(t, 2)
	l := locker(t, up[0], dead(t), up[1])
	lock := take(t, l, time.Minute)
	if _, err := l.Try(t.Context(), "k", time.Minute); !errors.Is(err, redlock.ErrTaken) {
		t.Errorf("a second holder got %v, want ErrTaken", err)
	}
	if err := lock.Extend(t.Context(), time.Minute); err != nil {
		t.Errorf("extend: %v", err)
	}
	// One of the two forgets it: the other alone is no majority.
	if err := up[0].Del(t.Context(), "k").Err(); err != nil {
		t.Fatal(err)
	}
	if err := lock.Extend(t.Context(), time.Minute); !errors.Is(err, redlock.ErrLost) {
		t.Errorf("extend with one of three: %v, want ErrLost", err)
	}
}

func TestWithoutAMajorityNothingStaysTaken(t *testing.T) {
	t.Parallel()
	t.Run("held by another", func(t *testing.T) {
		t.Parallel()
		up := nodes(t, 3)
		other := locker(t, up[0])
		take(t, other, time.Minute)
		take(t, locker(t, up[1]), time.Minute)
		if _, err := locker(t, up...).Try(t.Context(), "k", time.Minute); !errors.Is(err, redlock.ErrTaken) {
			t.Fatalf("one of three was enough: %v", err)
		}
		if n := up[2].Exists(t.Context(), "k").Val(); n != 0 {
			t.Error("the third node's lock was not given back")
		}
		if n := up[0].Exists(t.Context(), "k").Val(); n != 1 {
			t.Error("the other's lock was taken away")
		}
	})
	t.Run("nodes down", func(t *testing.T) {
		t.Parallel()
		up := nodes(t, 1)
		start := time.Now()
		_, err := locker(t, up[0], dead(t), dead(t)).Acquire(t.Context(), "k", time.Minute)
		if !errors.Is(err, redlock.ErrNoQuorum) {
			t.Fatalf("one of three was enough: %v", err)
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("hearing that took %v", took)
		}
		if n := up[0].Exists(t.Context(), "k").Val(); n != 0 {
			t.Error("the node's lock was not given back")
		}
	})
}

func TestAcquireWaits(t *testing.T) {
	t.Parallel()
	node := nodes(t, 1)
	l := locker(t, node...)
	lock := take(t, l, time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	// One that tries once and then waits until the end, whenever that comes.
	patient, err := redlock.New(redlock.Config{Retry: 10 * time.Second, NodeTimeout: 5 * time.Second}, node...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := patient.Acquire(ctx, "k", time.Minute); !errors.Is(err, redlock.ErrTaken) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting in vain said %v", err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := l.Acquire(t.Context(), "k", time.Minute)
		got <- err
	}()
	if err := lock.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-got:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a lock that was given back did not reach who waited for it")
	}
}

func TestNeverTwoAtOnce(t *testing.T) {
	t.Parallel()
	l := locker(t, nodes(t, 3)...)
	var inside, most atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				lock, err := l.Acquire(t.Context(), "k", time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n > most.Load() {
					most.Store(n)
				}
				inside.Add(-1)
				if err := lock.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if most.Load() != 1 {
		t.Errorf("%d held it at once", most.Load())
	}
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	client := dead(t)
	for name, bad := range map[string]func() error{
		"no node":         func() error { _, err := redlock.New(redlock.DefaultConfig()); return err },
		"even":            func() error { _, err := redlock.New(redlock.DefaultConfig(), client, client); return err },
		"nil":             func() error { _, err := redlock.New(redlock.DefaultConfig(), nil); return err },
		"no retry":        func() error { _, err := redlock.New(redlock.Config{NodeTimeout: time.Second}, client); return err },
		"no node timeout": func() error { _, err := redlock.New(redlock.Config{Retry: time.Second}, client); return err },
		"too short":       func() error { _, err := locker(t, client).Try(t.Context(), "k", time.Millisecond); return err },
		"no name":         func() error { _, err := locker(t, client).Try(t.Context(), "", time.Second); return err },
	} {
		if err := bad(); err == nil || errors.Is(err, redlock.ErrNoQuorum) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
