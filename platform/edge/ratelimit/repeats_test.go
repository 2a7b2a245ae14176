package ratelimit

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/platform/workshop/require"
)

func repeatsOf(t testing.TB, perSecond int) *Repeats {
	t.Helper()
	r, err := NewRepeats(perSecond)
	require.NoError(t, err)
	return r
}

// A user's repeats follow a bucket model with whole units, refilled every
// millisecond.
func TestRepeatsAreABucket(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		perSecond := rapid.IntRange(1, maxRepeats).Draw(rt, "per second")
		r := repeatsOf(t, perSecond)
		cost := 1000 / perSecond
		now := rapid.SampledFrom([]int64{0, 1_800_000_000_000, 1<<timeBits - 20_000}).Draw(rt, "begin")
		level, last := cost*perSecond, now
		for range rapid.IntRange(1, 100).Draw(rt, "takes") {
			now += rapid.Int64Range(0, 300).Draw(rt, "passes")
			level = min(cost*perSecond, level+int(now-last))
			last = now
			want := level >= cost
			wait, ok := r.Allow(42, now)
			if ok != want {
				rt.Fatalf("at %d ms with %d of %d: %v", now, level, cost, ok)
			}
			if ok {
				level -= cost
			} else if got := int(wait.Milliseconds()); got != cost-level {
				rt.Fatalf("at %d ms: wait %d ms, want %d", now, got, cost-level)
			}
		}
	})
}

func TestParallelRepeatsAreCountedOnce(t *testing.T) {
	t.Parallel()
	r := repeatsOf(t, 10)
	var passed atomic.Int64
	var wg sync.WaitGroup
	now := time.Now().UnixMilli()
	for range 1000 {
		wg.Go(func() {
			if _, ok := r.Allow(7, now); ok {
				passed.Add(1)
			}
		})
	}
	wg.Wait()
	require.Equal(t, "repeats of 1000 that passed", passed.Load(), 10)
	if wait, ok := r.Allow(7, now); ok || wait != 100*time.Millisecond {
		t.Errorf("the next: %v after %s, want refused for 100 ms", ok, wait)
	}
	if _, ok := r.Allow(7, now+100); !ok {
		t.Error("refused although its wait is over")
	}
}

// A flood of other users must not refuse a user, however many share a word, except
// the rare ones who share a tag with the word's last user: one in 33 million.
func TestFloodDoesNotRefuseOtherUsers(t *testing.T) {
	t.Parallel()
	r := repeatsOf(t, 1)
	refused := 0
	for user := range int64(1_000_000) {
		if _, ok := r.Allow(user, 5); !ok {
			refused++
		}
	}
	if refused > 2 { // 0.03 are expected
		t.Errorf("%d of a million users were refused at their first rush", refused)
	}
}

func TestAClockSetBackRefusesNobody(t *testing.T) {
	t.Parallel()
	r := repeatsOf(t, 2)
	for range 3 {
		r.Allow(1, 1_800_000_000_000)
	}
	if _, ok := r.Allow(1, 1_800_000_000_000-600_000); !ok {
		t.Error("refused for ten minutes after the clock was set back")
	}
}

func TestRepeatsOff(t *testing.T) {
	t.Parallel()
	r := repeatsOf(t, 0)
	for range 100 {
		if _, ok := r.Allow(1, 0); !ok {
			t.Fatal("a limit that is off refused")
		}
	}
	if _, err := NewRepeats(maxRepeats + 1); err == nil {
		t.Error("more than one in a millisecond was taken")
	}
}

func TestRepeatsAllocateNothing(t *testing.T) {
	r := repeatsOf(t, 10)
	now, user := time.Now().UnixMilli(), int64(0)
	require.Equal(t, "allocations", testing.AllocsPerRun(1000, func() { user++; r.Allow(user, now) }), 0)
}

// BenchmarkRepeats measures the cost for every rush: new users, as in a sale, and
// one that sends continuously.
func BenchmarkRepeats(b *testing.B) {
	for name, users := range map[string]int64{"one": 1, "million": 1_000_000} {
		b.Run(name, func(b *testing.B) {
			r := repeatsOf(b, 10)
			now, user := time.Now().UnixMilli(), int64(0)
			b.ReportAllocs()
			for b.Loop() {
				if user++; user >= users {
					user = 0
				}
				r.Allow(user*7919, now)
			}
		})
	}
}
