package qrlogin

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"

	"stampede/platform/base/ids"
)

// secretBytes is beyond guessing, and beyond finding by its hash.
const secretBytes = 32

// newSecret returns a secret as its holder sends it, and what is stored of it.
func newSecret() (text string, hash []byte) {
	raw := make([]byte, secretBytes)
	_, _ = rand.Read(raw) // it never fails, it ends the process
	text = base64.RawURLEncoding.EncodeToString(raw)
	return text, hashOf(text)
}

// hashOf needs no salt and no cost: its input is as random as its output.
func hashOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

// fits compares in constant time.
func fits(text string, hash []byte) bool { return subtle.ConstantTimeCompare(hashOf(text), hash) == 1 }

// newID is 128 random bits: an id that is minted by time could be guessed from
// one's own.
func newID() ids.ID {
	var id ids.ID
	_, _ = rand.Read(id[:]) // as above
	return id
}
