package inventoryevent

import (
	"encoding/json"
	"testing"
)

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
