package qrlogin

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"math/big"

	"stampede/platform/base/ids"
)

// secretBytes rules out guessing the secret, also from its hash.
const secretBytes = 32

// newSecret returns a secret as its holder sends it, and its stored hash.
func newSecret() (text string, hash []byte) {
	raw := make([]byte, secretBytes)
	_, _ = rand.Read(raw) // never returns an error
	text = base64.RawURLEncoding.EncodeToString(raw)
	return text, hashOf(text)
}

// hashOf needs neither a salt nor a slow hash: its input is random.
func hashOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

// fits compares in constant time.
func fits(text string, hash []byte) bool { return subtle.ConstantTimeCompare(hashOf(text), hash) == 1 }

// newNumber returns two random digits, the first of which is not 0: enough for a user
// to compare, and one guess is allowed.
func newNumber() int16 {
	n, _ := rand.Int(rand.Reader, big.NewInt(90)) // never returns an error
	return int16(10 + n.Int64())                  //nolint:gosec // below 100
}

// newID returns 128 random bits: an id derived from the time could be guessed from
// another one.
func newID() ids.ID {
	var id ids.ID
	_, _ = rand.Read(id[:]) // as above
	return id
}
