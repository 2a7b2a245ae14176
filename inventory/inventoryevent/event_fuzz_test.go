package inventoryevent

import (
	"encoding/json"
	"testing"
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
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &second); err != nil || second != first {
		t.Fatalf("%s became %+v, then %+v, %v", raw, first, second, err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		var got Returned
		if err := json.Unmarshal(out, &got); err != nil || got != want {
			t.Fatalf("%+v decoded as %+v, %v", want, got, err)
		}
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
