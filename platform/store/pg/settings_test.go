package pg

import (
	"maps"
	"testing"
)

func TestShare(t *testing.T) {
	t.Parallel()
	weights := map[string]int32{"a": 6, "b": 4, "c": 10}
	for budget, want := range map[int32]map[string]int32{
		20: weights, 6: {"a": 2, "b": 2, "c": 2}, 7: {"a": 2, "b": 2, "c": 3}, 40: {"a": 12, "b": 8, "c": 20},
		11: {"a": 4, "b": 2, "c": 5}, // a tie goes to the first
	} {
		if got := Share(budget, weights); !maps.Equal(got, want) {
			t.Errorf("%d connections: %v, want %v", budget, got, want)
		}
	}
}
