// Package permute lists orders of events, for tests that want all of them.
package permute

import (
	"cmp"
	"slices"
)

// All returns every order of the events, each once although events may repeat:
// n! divided by the factorials of the repetitions. Eight different events make
// 40,320 lists, so n stays small.
func All[E cmp.Ordered](events []E) (all [][]E) {
	var walk func(so, left []E)
	walk = func(so, left []E) {
		if len(left) == 0 {
			all = append(all, slices.Clone(so))
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
	return all
}
