package bloom_test

import (
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"stampede/platform/base/bloom"
	"stampede/platform/workshop/require"
)

func TestFilterNeverDeniesAHolder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		f := bloom.New(rapid.IntRange(1, 4000).Draw(r, "size"))
		users := rapid.SliceOf(rapid.Int64()).Draw(r, "users")
		for _, u := range users {
			f.Add(u)
		}
		for _, u := range users {
			if !f.Has(u) {
				r.Fatalf("user %d was added and is denied", u)
			}
		}
	})
}

// Neighbouring user ids are the usual case; they must not collide with each
// other.
func TestFilterRarelyClaimsAStranger(t *testing.T) {
	t.Parallel()
	const holders = 50_000
	f := bloom.New(holders)
	for u := range int64(holders) {
		f.Add(u + 1)
	}
	claimed := 0
	for u := range int64(holders) {
		if f.Has(holders + 1 + u) {
			claimed++
		}
	}
	if share := float64(claimed) / holders; share > 0.015 {
		t.Fatalf("claims %.2f %% of strangers", share*100)
	}
}

func TestFilterKeepsWhatIsAddedAtTheSameTime(t *testing.T) {
	t.Parallel()
	f := bloom.New(800)
	var wg sync.WaitGroup
	for w := range int64(4) {
		wg.Go(func() {
			for u := range int64(200) {
				f.Add(w*1000 + u)
			}
		})
	}
	wg.Wait()
	for w := range int64(4) {
		for u := range int64(200) {
			require.Equal(t, fmt.Sprintf("user %d is there", w*1000+u), f.Has(w*1000+u), true)
		}
	}
}

func BenchmarkFilterHas(b *testing.B) {
	f := bloom.New(100_000)
	b.ReportAllocs()
	for u := int64(0); b.Loop(); u++ {
		f.Has(u)
	}
}
