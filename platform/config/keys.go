package config

import (
	"errors"
	"fmt"
	"slices"
)

// maxPreviousKeys bounds what a forged token costs: each key is tried on it. Two
// are in use during a rotation; a second rotation may begin before the first has
// run out.
const maxPreviousKeys = 4

// Keys are the signing keys beside the current one. A key is replaced in three
// steps, each on all instances in any order, so that at no moment an instance
// meets a path or a token whose key it does not know:
//
//  1. list the new key here; everybody takes what it signs, nobody signs with it;
//  2. make it the signing key and list the old one here;
//  3. when nothing signed with the old key is valid any more, leave it out.
//
// A path is valid for four minutes at most, a login's access token for
// --access-lifetime, a minted one for as long as it was minted for. One instance
// alone needs only the last two steps.
type Keys struct {
	PreviousSigningKeys []string `name:"previous-signing-keys" env:"STAMPEDE_PREVIOUS_SIGNING_KEYS" help:"Other signing keys whose rush paths and access tokens are taken too, comma-separated, at most 4: the one that was replaced, or the one that is coming. None is signed with." secret:""`
}

// PreviousKeys are the other keys as the modules take them.
func (k Keys) PreviousKeys() [][]byte {
	keys := make([][]byte, 0, len(k.PreviousSigningKeys))
	for _, key := range k.PreviousSigningKeys {
		keys = append(keys, []byte(key))
	}
	return keys
}

// validate refuses a key that would not be good enough to sign with: whoever
// guesses one of these may sign all the same. The sentence never has the key.
func (k Keys) validate() error {
	if len(k.PreviousSigningKeys) > maxPreviousKeys {
		return fmt.Errorf("--previous-signing-keys must name at most %d keys, not %d", maxPreviousKeys, len(k.PreviousSigningKeys))
	}
	var wrong []error
	for i, key := range k.PreviousSigningKeys {
		if err := CheckKey(key); err != nil {
			wrong = append(wrong, fmt.Errorf("--previous-signing-keys, key %d of %d: %w", i+1, len(k.PreviousSigningKeys), err))
		}
		if slices.Contains(k.PreviousSigningKeys[:i], key) {
			wrong = append(wrong, fmt.Errorf("--previous-signing-keys names key %d twice", i+1))
		}
	}
	return errors.Join(wrong...)
}
