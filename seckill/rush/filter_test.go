package rush

import (
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestFilterNeverDeniesAHolder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		f := newHolderFilter(rapid.IntRange(0, 4000).Draw(r, "size"))
		users := rapid.SliceOf(rapid.Int64()).Draw(r, "users")
		for _, u := range users {
			f.add(u)
		}
		for _, u := range users {
			if !f.has(u) {
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
	f := newHolderFilter(holders)
	for u := range int64(holders) {
		f.add(u + 1)
	}
	claimed := 0
	for u := range int64(holders) {
		if f.has(holders + 1 + u) {
			claimed++
		}
	}
	if share := float64(claimed) / holders; share > 0.015 {
		t.Fatalf("claims %.2f %% of strangers", share*100)
	}
}

func TestFilterKeepsWhatIsAddedAtTheSameTime(t *testing.T) {
	t.Parallel()
	f := newHolderFilter(0)
	var wg sync.WaitGroup
	for w := range int64(4) {
		wg.Go(func() {
			for u := range int64(200) {
				f.add(w*1000 + u)
			}
		})
	}
	wg.Wait()
	for w := range int64(4) {
		for u := range int64(200) {
			if !f.has(w*1000 + u) {
				t.Fatalf("user %d was lost", w*1000+u)
			}
		}
	}
}

func BenchmarkFilterHas(b *testing.B) {
	f := newHolderFilter(100_000)
	b.ReportAllocs()
	for u := int64(0); b.Loop(); u++ {
		f.has(u)
	}
}
