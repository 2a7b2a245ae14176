package seckillevent

import (
	"encoding/json"
	"testing"
	"time"
)

// Events outlive the program that wrote them: pinned.
func TestEventsGolden(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	for want, event := range map[string]any{
		`{"activity_id":"12"}`: Changed{ActivityID: 12},
		`{"session_id":"31","external_id":"s","activity_id":"12","activity_external_id":"a","opens_at":"2026-11-11T12:00:00Z","closes_at":"2026-11-11T13:00:00Z","terminated":true}`: Session{
			SessionID: 31, ExternalID: "s", ActivityID: 12, ActivityExternalID: "a", OpensAt: at, ClosesAt: at.Add(time.Hour), Terminated: true,
		},
		`{"items":[{"item_id":"42","external_id":"i","sku":"phone","session_id":"31","session_external_id":"s","activity_id":"12","activity_external_id":"a","left":3,"held":1,"unlimited":true}]}`: Items{[]Item{{
			ItemID: 42, ExternalID: "i", SKU: "phone", SessionID: 31, SessionExternalID: "s", ActivityID: 12, ActivityExternalID: "a", Left: 3, Held: 1, Unlimited: true,
		}}},
	} {
		if raw, err := json.Marshal(event); err != nil || string(raw) != want {
			t.Errorf("%s, %v, want %s", raw, err, want)
		}
	}
}
