package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxPreviousKeys bounds the cost of a forged token: each key is tried on it. Two
// are in use during a rotation, and a second rotation may begin before the first has
// completed.
const maxPreviousKeys = 4

// Settings are the keys that sign rush paths and access tokens. A key is rotated in
// three steps, each on all instances in any order, so that an instance never meets a
// path or a token whose key it does not know:
//
//  1. list the new key among the previous ones; all instances accept it, none signs with it;
//  2. make it the signing key and list the old one here;
//  3. remove the old key when nothing signed with it is valid any more.
//
// A path is valid for at most four minutes, or fourteen where a risk rule admits
// later; a login's access token for --access-lifetime, a minted one for the lifetime
// that it was minted with. A single instance needs only the last two steps.
type Settings struct {
	SigningKey          string   `default:"" env:"STAMPEDE_SIGNING_KEY" help:"Secret that signs rush paths and access tokens, at least 32 bytes; the same on every instance. serve refuses to start without it; run generates one and stores it with its data." secret:""`
	PreviousSigningKeys []string `env:"STAMPEDE_PREVIOUS_SIGNING_KEYS" help:"Other signing keys whose rush paths and access tokens are accepted too, comma-separated, at most 4: the previous key, or the next one. None of them signs." secret:"" rare:""`
}

// Previous returns the other keys in the form that the modules take.
func (s Settings) Previous() [][]byte {
	keys := make([][]byte, 0, len(s.PreviousSigningKeys))
	for _, key := range s.PreviousSigningKeys {
		keys = append(keys, []byte(key))
	}
	return keys
}

// Check refuses a previous key that is too weak to sign with, because an attacker
// who guesses it can forge signatures all the same. The error never contains the
// key. The commands check SigningKey themselves: run may go without.
func (s Settings) Check() error {
	if len(s.PreviousSigningKeys) > maxPreviousKeys {
		return fmt.Errorf("--previous-signing-keys must contain at most %d keys, not %d", maxPreviousKeys, len(s.PreviousSigningKeys))
	}
	var wrong []error
	for i, key := range s.PreviousSigningKeys {
		if err := CheckKey(key); err != nil {
			wrong = append(wrong, fmt.Errorf("--previous-signing-keys, key %d of %d: %w", i+1, len(s.PreviousSigningKeys), err))
		}
		if slices.Contains(s.PreviousSigningKeys[:i], key) {
			wrong = append(wrong, fmt.Errorf("--previous-signing-keys contains key %d twice", i+1))
		}
	}
	return errors.Join(wrong...)
}

// exampleKeys are the beginnings of example keys in documentation, which operators
// copy.
var exampleKeys = []string{"changeme", "change-me", "secret", "stampede", "example", "password"}

// ErrSigningKey reports a missing or weak key.
var ErrSigningKey = errors.New("STAMPEDE_SIGNING_KEY must be a secret of at least 32 bytes; make one with: openssl rand -hex 32")

// CheckKey refuses a key that is missing, short, a known example or one repeated
// byte.
func CheckKey(key string) error {
	if len(key) < MinKeyBytes || strings.Count(key, key[:1]) == len(key) {
		return ErrSigningKey
	}
	for _, bad := range exampleKeys {
		if strings.HasPrefix(strings.ToLower(key), bad) {
			return fmt.Errorf("the signing key begins like an example from documentation: %w", ErrSigningKey)
		}
	}
	return nil
}
