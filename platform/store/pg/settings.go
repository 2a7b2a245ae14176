package pg

import (
	"cmp"
	"maps"
	"slices"
)

// Settings are the process's connection budget.
type Settings struct {
	MaxConns int32 `default:"39" env:"STAMPEDE_MAX_CONNS" help:"Postgres connections of this instance, divided among its modules by weight; by default the order writer gets 10, and payments, which must answer however busy the rush is, 8." min:"12" max:"5000" rare:""`
}

// leastConns is the smallest pool: with a single connection, code that needs a
// second one deadlocks.
const leastConns = 2

// Share divides a budget of connections by weight: leastConns to each part,
// then one at a time to the part that has the fewest for its weight. With the
// sum of the weights as the budget, each part gets its weight.
func Share(budget int32, weights map[string]int32) map[string]int32 {
	shares := map[string]int32{}
	for name := range weights {
		shares[name] = leastConns
		budget -= leastConns
	}
	names := slices.Sorted(maps.Keys(weights))
	for ; budget > 0; budget-- {
		shares[slices.MinFunc(names, func(a, b string) int {
			return cmp.Compare(float64(shares[a])/float64(weights[a]), float64(shares[b])/float64(weights[b]))
		})]++
	}
	return shares
}
