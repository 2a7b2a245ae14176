package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxPreviousKeys bounds what a forged token costs: each key is tried on it. Two
// are in use during a rotation; a second rotation may begin before the first has
// run out.
const maxPreviousKeys = 4

// Settings are the keys that rush paths and access tokens are signed with. A key is
// replaced in three steps, each on all instances in any order, so that at no moment
// an instance meets a path or a token whose key it does not know:
//
//  1. list the new key among the previous ones; all instances take what it signs, none signs with it;
//  2. make it the signing key and list the old one here;
//  3. when nothing signed with the old key is valid any more, leave it out.
//
// A path is valid for four minutes at most, a login's access token for
// --access-lifetime, a minted one for as long as it was minted for. A single
// instance needs only the last two steps.
type Settings struct {
	SigningKey          string   `default:"" env:"STAMPEDE_SIGNING_KEY" help:"Secret that signs rush paths and access tokens, at least 32 bytes; the same on every instance. serve refuses to start without it; run makes one and keeps it beside its data." secret:""`
	PreviousSigningKeys []string `env:"STAMPEDE_PREVIOUS_SIGNING_KEYS" help:"Other signing keys whose rush paths and access tokens are taken too, comma-separated, at most 4: the one that was replaced, or the one that is coming. None is signed with." secret:"" rare:""`
}

// Previous are the other keys as the modules take them.
func (s Settings) Previous() [][]byte {
	keys := make([][]byte, 0, len(s.PreviousSigningKeys))
	for _, key := range s.PreviousSigningKeys {
		keys = append(keys, []byte(key))
	}
	return keys
}

// Check refuses a previous key that would not be good enough to sign with: an
// attacker who guesses it can sign all the same. The sentence never has the key.
// SigningKey itself is the commands' to check: run may go without.
func (s Settings) Check() error {
	if len(s.PreviousSigningKeys) > maxPreviousKeys {
		return fmt.Errorf("--previous-signing-keys must name at most %d keys, not %d", maxPreviousKeys, len(s.PreviousSigningKeys))
	}
	var wrong []error
	for i, key := range s.PreviousSigningKeys {
		if err := CheckKey(key); err != nil {
			wrong = append(wrong, fmt.Errorf("--previous-signing-keys, key %d of %d: %w", i+1, len(s.PreviousSigningKeys), err))
		}
		if slices.Contains(s.PreviousSigningKeys[:i], key) {
			wrong = append(wrong, fmt.Errorf("--previous-signing-keys names key %d twice", i+1))
		}
	}
	return errors.Join(wrong...)
}

// exampleKeys begin the example keys that documentation somewhere shows and
// operators copy.
var exampleKeys = []string{"changeme", "change-me", "secret", "stampede", "example", "password"}

// ErrSigningKey explains a missing or weak key.
var ErrSigningKey = errors.New("STAMPEDE_SIGNING_KEY must be a secret of at least 32 bytes; make one with: openssl rand -hex 32")

// CheckKey refuses a key that is missing, short, a known example or made of
// one repeated byte.
func CheckKey(key string) error {
	if len(key) < MinKeyBytes || strings.Count(key, key[:1]) == len(key) {
		return ErrSigningKey
	}
	for _, bad := range exampleKeys {
		if strings.HasPrefix(strings.ToLower(key), bad) {
			return fmt.Errorf("this signing key begins like an example from documentation: %w", ErrSigningKey)
		}
	}
	return nil
}
