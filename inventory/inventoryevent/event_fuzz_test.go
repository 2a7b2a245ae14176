package inventoryevent

import (
	"encoding/json"
	"testing"

	"stampede/platform/workshop/require"
)

// same reads raw as an event, writes it and reads it again: an accepted event
// must mean the same after another round.
func same[E comparable](t *testing.T, raw []byte) {
	t.Helper()
	var event E
	if json.Unmarshal(raw, &event) == nil {
		require.SameAsJSON(t, event)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"item_id":"7","epoch":3,"rel":2}`), int64(7), int64(3), int64(2))
	f.Add([]byte(`{"item_id":7}`), int64(-1), int64(1<<62), int64(0))
	f.Add([]byte(`[]`), int64(0), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, raw []byte, item, epoch, rel int64) {
		same[Returned](t, raw)
		same[Loaded](t, raw)
		require.SameAsJSON(t, Returned{ItemID: item, Epoch: epoch, Rel: rel})
	})
}

// Instances of two versions exchange these events during an update: pinned.
func TestEventsGolden(t *testing.T) {
	t.Parallel()
	for want, event := range map[string]any{
		`{"item_id":"7","epoch":3,"rel":2}`: Returned{ItemID: 7, Epoch: 3, Rel: 2},
		`{"item_id":"7","epoch":3}`:         Loaded{ItemID: 7, Epoch: 3},
	} {
		if raw, err := json.Marshal(event); err != nil || string(raw) != want {
			t.Errorf("%s, %v, want %s", raw, err, want)
		}
	}
}
