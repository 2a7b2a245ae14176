package stock

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stampede/platform/workshop/require"
)

// The slots that `CLUSTER KEYSLOT` of Redis 7 answers.
func TestSlots(t *testing.T) {
	t.Parallel()
	for tag, slot := range map[string]int{"123456789": 12739, "foo": 12182, "g:i1:0": 6436} {
		require.Equal(t, tag, slotOf(tag), slot)
	}
}

// However many nodes share the slots in ranges, none has many more of an item's shards than its part.
func TestShardsAreSpreadOverNodes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		item := Item{ID: rapid.Int64Range(1, 1<<40).Draw(t, "item")}
		nodes, shards := rapid.IntRange(1, 16).Draw(t, "nodes"), rapid.IntRange(1, MostShards).Draw(t, "shards")
		on, names := make([]int, nodes), map[string]bool{}
		for n := range shards {
			key := item.Counter(int16(n)).StateKey()
			tag, _, _ := strings.Cut(key[1:], "}")
			names[tag] = true
			on[slotOf(tag)*nodes/slots]++
		}
		for _, n := range on {
			if n > (shards+nodes-1)/nodes+2 {
				t.Fatalf("a node of %d has %d of %d shards: %v", nodes, n, shards, on)
			}
		}
		if len(names) != shards {
			t.Fatalf("%d names for %d shards", len(names), shards)
		}
	})
}
