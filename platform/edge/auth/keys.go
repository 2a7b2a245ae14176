package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"slices"
)

// leastMAC is the shortest beginning of a MAC that Ring.Made accepts: 128 bits, because
// each guess costs a request.
const leastMAC = 16

// Derive returns the key for one purpose from the signing key: HMAC-SHA256 of
// the purpose, the expand step of HKDF (RFC 5869) for one block.
func Derive(signingKey []byte, purpose string) []byte {
	return MAC(signingKey, []byte("stampede/"+purpose+"\x01"))
}

// MAC is HMAC-SHA256 of the parts in a row, of which at most one may have any length.
func MAC(key []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// Ring are the keys for one purpose, one of each accepted signing key, the current one
// first: during a key rotation what another key made is valid too.
type Ring [][]byte

// Keys derives the keys for a purpose.
func Keys(purpose string, signing ...[]byte) (r Ring) {
	for _, key := range signing {
		r = append(r, Derive(key, purpose))
	}
	return r
}

// MAC is the MAC of the parts with the current key.
func (r Ring) MAC(parts ...[]byte) []byte { return MAC(r[0], parts...) }

// Made reports whether one of the keys made a MAC of the parts, or the longer one that it
// begins.
func (r Ring) Made(mac []byte, parts ...[]byte) bool {
	return len(mac) >= leastMAC && len(mac) <= sha256.Size && slices.ContainsFunc(r, func(key []byte) bool {
		return hmac.Equal(mac, MAC(key, parts...)[:len(mac)])
	})
}

// Seal encrypts a text (AES-256-GCM) so that Open returns it to who says what it is about.
func (r Ring) Seal(plain []byte, about string) []byte {
	return box(r[0]).Seal(nil, nil, plain, []byte(about)) //nolint:gosec // the cipher makes its own random nonce
}

// Open decrypts what Seal encrypted with any of the keys.
func (r Ring) Open(sealed []byte, about string) (plain []byte, ok bool) {
	for _, key := range r {
		if plain, err := box(key).Open(nil, nil, sealed, []byte(about)); err == nil {
			return plain, true
		}
	}
	return nil, false
}

func box(key []byte) (box cipher.AEAD) {
	block, err := aes.NewCipher(key)
	if err == nil {
		box, err = cipher.NewGCMWithRandomNonce(block)
	}
	if err != nil {
		panic("auth: " + err.Error()) // a derived key has the length of a key of AES-256
	}
	return box
}
