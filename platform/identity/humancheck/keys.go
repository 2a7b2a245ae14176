package humancheck

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"

	"stampede/platform/edge/auth"
)

// keyPurpose separates the tickets' key from all others derived from the same
// signing key.
const keyPurpose = "human-check"

// keys signs tickets with its first key and accepts those of any of its keys, so
// that a key rotation refuses no fresh ticket. Safe for concurrent use.
type keys []ticketKey

// ticketKey is a key with an id derived from the key itself, so that all instances
// agree on it without coordination. Two keys may share an id: both are tried.
type ticketKey struct {
	id     byte
	secret []byte
}

// newKeys derives the ticket keys: the current one first, then those being retired.
func newKeys(signing [][]byte) (keys, error) {
	if len(signing) == 0 {
		return nil, errors.New("humancheck: tickets need a signing key")
	}
	var ring keys
	for i, s := range signing {
		if len(s) == 0 {
			return nil, fmt.Errorf("humancheck: signing key %d is empty", i+1)
		}
		secret := auth.Derive(s, keyPurpose)
		fingerprint := sha256.Sum256(secret)
		ring = append(ring, ticketKey{id: fingerprint[0], secret: secret})
	}
	return ring, nil
}

// sign encodes a ticket for a subject.
func (ring keys) sign(t ticket, sub Subject) string {
	k := ring[0]
	t.user, t.item, t.purpose, t.origin = sub.User, sub.Item, purposes[sub.Purpose], k.origin(sub)
	var raw [ticketBytes]byte
	t.put(&raw, k.id)
	copy(raw[ticketMACAt:], k.seal(raw[:ticketMACAt]))
	return ticketEncoding.EncodeToString(raw[:])
}

// open reads a ticket that was made for the subject. For a valid ticket with another
// subject it returns errForeign, for anything else errForged.
func (ring keys) open(text string, sub Subject) (ticket, error) {
	var t ticket
	if len(text) != ticketTextBytes {
		return t, errForged
	}
	var raw [ticketBytes]byte
	if n, err := ticketEncoding.Decode(raw[:], []byte(text)); err != nil || n != ticketBytes || raw[0] != ticketVersion {
		return t, errForged
	}
	for _, k := range ring {
		if k.id != raw[ticketKeyAt] || !hmac.Equal(k.seal(raw[:ticketMACAt]), raw[ticketMACAt:]) {
			continue
		}
		t.take(&raw)
		if t.user != sub.User || t.item != sub.Item || t.purpose != purposes[sub.Purpose] || t.origin != k.origin(sub) {
			return ticket{}, errForeign
		}
		return t, nil
	}
	return t, errForged
}

// seal returns the truncated MAC of a payload.
func (k ticketKey) seal(payload []byte) []byte {
	mac := hmac.New(sha256.New, k.secret)
	_, _ = mac.Write(payload) // a hash never fails
	return mac.Sum(nil)[:ticketMACBytes]
}

// origin is the address that a ticket without a user is bound to. It is hashed with
// the key, because a ticket also travels through the verifier.
func (k ticketKey) origin(sub Subject) (origin [8]byte) {
	if sub.User == 0 {
		copy(origin[:], k.seal([]byte("origin\x00"+sub.address())))
	}
	return origin
}
