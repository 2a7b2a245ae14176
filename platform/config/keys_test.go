package config_test

import (
	"strings"
	"testing"

	"stampede/platform/config"
)

const (
	goodKey  = "6f1c0a92d8e54b7391aa02c4f1e0d9b8"
	otherKey = "0d9b86f1c0a92d8e54b7391aa02c4f1e"
)

func TestPreviousSigningKeys(t *testing.T) {
	t.Parallel()
	s, flags, err := parse(t, "--previous-signing-keys="+goodKey+","+otherKey)
	if err != nil {
		t.Fatal(err)
	}
	if keys := s.PreviousKeys(); len(keys) != 2 || string(keys[0]) != goodKey || string(keys[1]) != otherKey {
		t.Errorf("keys %q", keys)
	}
	var out strings.Builder
	if err := config.Print(&out, flags); err != nil || strings.Contains(out.String(), goodKey) || strings.Contains(out.String(), otherKey) ||
		!strings.Contains(out.String(), "(set, 2 of them)") {
		t.Errorf("printed, %v:\n%s", err, out.String())
	}
	if s, _, err := parse(t); err != nil || len(s.PreviousKeys()) != 0 {
		t.Errorf("without the setting: %q, %v", s.PreviousKeys(), err)
	}
}

// A key that is not good enough to sign with is not good enough to verify with,
// in any place of the list; the sentence does not tell it.
func TestAWeakPreviousKeyIsRefused(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		"short-key":                             "key 1 of 1",
		goodKey + ",short-key":                  "key 2 of 2",
		goodKey + "," + strings.Repeat("a", 64): "key 2 of 2",
		goodKey + "," + goodKey:                 "twice",
		strings.Join([]string{goodKey + "1", goodKey + "2", goodKey + "3", goodKey + "4", goodKey + "5"}, ","): "at most 4",
	} {
		_, _, err := parse(t, "--previous-signing-keys="+list)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--previous-signing-keys") ||
			strings.Contains(err.Error(), "short-key") || strings.Contains(err.Error(), goodKey) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", list, err, want)
		}
	}
}

func TestSocketsPerUser(t *testing.T) {
	t.Parallel()
	if s, _, err := parse(t); err != nil || s.MaxUserSockets != 5 {
		t.Errorf("default %d, %v", s.MaxUserSockets, err)
	}
	for _, wrong := range []string{"0", "101"} {
		if _, _, err := parse(t, "--max-user-sockets="+wrong); err == nil || !strings.Contains(err.Error(), "--max-user-sockets must be between") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
