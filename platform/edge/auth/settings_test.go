package auth

import (
	"strings"
	"testing"
)

const (
	goodKey  = "6f1c0a92d8e54b7391aa02c4f1e0d9b8"
	otherKey = "0d9b86f1c0a92d8e54b7391aa02c4f1e"
)

// A key that is too weak to sign with is too weak to verify with, at any position of
// the list; the error does not contain it.
func TestAWeakPreviousKeyIsRefused(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		"short-key":                             "key 1 of 1",
		goodKey + ",short-key":                  "key 2 of 2",
		goodKey + "," + strings.Repeat("a", 64): "key 2 of 2",
		goodKey + "," + goodKey:                 "twice",
		strings.Join([]string{goodKey + "1", goodKey + "2", goodKey + "3", goodKey + "4", goodKey + "5"}, ","): "at most 4",
	} {
		err := Settings{PreviousSigningKeys: strings.Split(list, ",")}.Check()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--previous-signing-keys") ||
			strings.Contains(err.Error(), "short-key") || strings.Contains(err.Error(), goodKey) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", list, err, want)
		}
	}
	s := Settings{PreviousSigningKeys: []string{goodKey, otherKey}}
	if keys := s.Previous(); s.Check() != nil || len(keys) != 2 || string(keys[0]) != goodKey || string(keys[1]) != otherKey {
		t.Errorf("keys %q, %v", keys, s.Check())
	}
}

func TestWeakKeysAreRefused(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "short", strings.Repeat("a", 64), "changeme-changeme-changeme-changeme", "SECRET-secret-secret-secret-secret"} {
		if err := CheckKey(key); err == nil {
			t.Errorf("CheckKey(%q) = nil", key)
		}
	}
	if err := CheckKey(goodKey); err != nil {
		t.Error(err)
	}
}
