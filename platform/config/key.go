package config

import (
	"errors"
	"fmt"
	"strings"

	"stampede/platform/auth"
)

// defaultKeys are example keys that documentation somewhere shows; whoever
// copies one must be stopped.
var defaultKeys = []string{"changeme", "change-me", "secret", "stampede", "example", "password"}

// ErrSigningKey explains a missing or weak key.
var ErrSigningKey = errors.New("STAMPEDE_SIGNING_KEY must be a secret of at least 32 bytes; make one with: openssl rand -hex 32")

// CheckKey refuses a key that is missing, short, a known example or made of
// one repeated byte.
func CheckKey(key string) error {
	if len(key) < auth.MinKeyBytes || strings.Count(key, key[:1]) == len(key) {
		return ErrSigningKey
	}
	for _, bad := range defaultKeys {
		if strings.HasPrefix(strings.ToLower(key), bad) {
			return fmt.Errorf("this signing key begins like an example from documentation: %w", ErrSigningKey)
		}
	}
	return nil
}
