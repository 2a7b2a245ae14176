package wire

import (
	"encoding/json"
	"testing"
	"time"
)

// TestPartsOnTheWire checks the JSON of ids, times and money.
func TestPartsOnTheWire(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(struct {
		A ID
		B Time
		C Money
	}{9007199254740993, Time(time.Date(2026, 11, 11, 20, 0, 0, 5_999_999, time.FixedZone("", 8*3600))), Money{1, "CNY"}})
	if want := `{"A":"9007199254740993","B":"2026-11-11T12:00:00.005Z","C":{"amount":1,"currency":"CNY"}}`; err != nil || string(raw) != want {
		t.Errorf("%s %v, want %s", raw, err, want)
	}
	for _, s := range []string{`"0"`, `"-1"`, `"x"`, `7`, `""`} {
		var id ID
		if err := json.Unmarshal([]byte(s), &id); err == nil {
			t.Errorf("%s was read as %v", s, id)
		}
	}
}
