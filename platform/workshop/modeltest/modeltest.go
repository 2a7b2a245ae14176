// Package modeltest determines how much the model-based tests cover: a sample
// in make test, everything in make long.
package modeltest

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
)

// long is how many cases of each rapid test make long runs: some minutes for
// the slowest package.
const long = 1000

// whole reports whether make long started the tests.
func whole() bool { return os.Getenv("STAMPEDE_TEST_LONG") != "" }

// Checks sets how many cases the package's rapid tests run. Call it in
// TestMain, before flags are parsed, so that -rapid.checks can override it.
func Checks(sample int) {
	if whole() {
		sample = long
	}
	if err := flag.Set("rapid.checks", strconv.Itoa(sample)); err != nil {
		panic(err)
	}
}

// Times returns how many times a test repeats a random case: sample, or in make
// long long.
func Times(sample, long int) int {
	if whole() {
		return long
	}
	return sample
}

// Permutations returns orderings of the events: a sample, the same in every
// run, or in make long all of them.
func Permutations[E cmp.Ordered](events []E, sample int) [][]E {
	orders := all(events)
	if whole() || sample >= len(orders) {
		return orders
	}
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // not security-relevant
	random.Shuffle(len(orders), func(i, j int) { orders[i], orders[j] = orders[j], orders[i] })
	return orders[:sample]
}

// all returns every distinct ordering of the events, although events may
// repeat: n! divided by the factorials of the repetitions. Eight different
// events make 40,320 lists, so n stays small.
func all[E cmp.Ordered](events []E) (orders [][]E) {
	var walk func(so, left []E)
	walk = func(so, left []E) {
		if len(left) == 0 {
			orders = append(orders, slices.Clone(so))
			return
		}
		for i, e := range left {
			if i > 0 && left[i-1] == e {
				continue
			}
			walk(append(so, e), slices.Concat(left[:i], left[i+1:]))
		}
	}
	walk(nil, slices.Sorted(slices.Values(events)))
	return orders
}
