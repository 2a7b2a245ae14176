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
	var first, second E
	if json.Unmarshal(raw, &first) != nil {
		return
	}
	out, err := json.Marshal(first)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, &second))
	require.Equal(t, "again", second, first)
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"item_id":"7","epoch":3,"rel":2}`), int64(7), int64(3), int64(2))
	f.Add([]byte(`{"item_id":7}`), int64(-1), int64(1<<62), int64(0))
	f.Add([]byte(`[]`), int64(0), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, raw []byte, item, epoch, rel int64) {
		same[Returned](t, raw)
		same[Loaded](t, raw)
		want := Returned{ItemID: item, Epoch: epoch, Rel: rel}
		out, err := json.Marshal(want)
		require.NoError(t, err)
		var got Returned
		require.NoError(t, json.Unmarshal(out, &got))
		require.Equal(t, "decoded", got, want)
	})
}

// Instances of two versions exchange these events during an update: pinned.
func TestEventsGolden(t *testing.T) {
	t.Parallel()
	for want, event := range map[string]any{
		`{"item_id":"7","epoch":3,"rel":2}`: Returned{ItemID: 7, Epoch: 3, Rel: 2},
		`{"item_id":"7","epoch":3}`:         Loaded{ItemID: 7, Epoch: 3},
	} {
		raw, err := json.Marshal(event)
		require.NoError(t, err)
		require.Equal(t, "encoded", string(raw), want)
	}
}
