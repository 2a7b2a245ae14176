package humancheck

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"stampede/platform/edge/auth"
)

// A ticket is a challenge as text: a fixed binary payload and a truncated HMAC over
// it, in unpadded base64url. Fixed offsets give each ticket exactly one spelling.
//
//	 0  1  version
//	 1  1  key id
//	 2  1  form
//	 3  1  purpose
//	 4  1  difficulty, in bits; 0 unless it is a proof of work
//	 5  8  user
//	13  8  item
//	21  8  origin: hash of the client's address before a login
//	29 16  id, random
//	45  6  issued at, Unix milliseconds
//	51  2  lifetime, seconds
//	53 16  first half of HMAC-SHA256 over bytes 0 … 52
const (
	ticketVersion = 1

	ticketKeyAt = 1
	ticketMACAt = 53
	// ticketMACBytes is 128 bits: each guess costs a request, and a ticket lives for
	// minutes.
	ticketMACBytes = 16
	ticketBytes    = ticketMACAt + ticketMACBytes
	// ticketTextBytes is a multiple of 4 without padding, so that every bit of the
	// text counts. With a nonce of up to 16 digits it leaves two blocks for SHA-256,
	// the first of which is the same for every nonce.
	ticketTextBytes = ticketBytes / 3 * 4
)

// form is how a ticket must be solved.
type form byte

// The forms; they are part of the ticket's format, so append new ones at the end.
const (
	formPow form = iota + 1
	formSlide
	formVerifier
	// formStandIn is a proof of work issued while the verifier was down.
	formStandIn
)

type ticket struct {
	form       form
	purpose    byte
	difficulty byte
	user, item int64
	origin     [8]byte
	id         [16]byte
	issued     int64 // Unix milliseconds
	lifetime   uint16
}

// expires is when the ticket becomes invalid.
func (t *ticket) expires() time.Time {
	return time.UnixMilli(t.issued).Add(time.Duration(t.lifetime) * time.Second)
}

// append writes the payload without its MAC.
func (t *ticket) append(b []byte, key byte) []byte {
	b = append(b, ticketVersion, key, byte(t.form), t.purpose, t.difficulty)
	b = binary.BigEndian.AppendUint64(b, uint64(t.user))
	b = binary.BigEndian.AppendUint64(b, uint64(t.item))
	b = append(append(b, t.origin[:]...), t.id[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(t.issued>>32)) // 48 bits last until the year 10889
	b = binary.BigEndian.AppendUint32(b, uint32(t.issued))
	return binary.BigEndian.AppendUint16(b, t.lifetime)
}

// take reads a payload whose MAC has been checked.
func (t *ticket) take(b *[ticketBytes]byte) {
	t.form, t.purpose, t.difficulty = form(b[2]), b[3], b[4]
	t.user, t.item = int64(binary.BigEndian.Uint64(b[5:])), int64(binary.BigEndian.Uint64(b[13:]))
	copy(t.origin[:], b[21:])
	copy(t.id[:], b[29:])
	t.issued = int64(binary.BigEndian.Uint16(b[45:]))<<32 | int64(binary.BigEndian.Uint32(b[47:]))
	t.lifetime = binary.BigEndian.Uint16(b[51:])
}

// ticketEncoding would skip line breaks, but the fixed length rules them out.
var ticketEncoding = base64.RawURLEncoding.Strict()

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
func newKeys(signing [][]byte) (ring keys) {
	for _, secret := range auth.Keys("human-check", signing...) {
		fingerprint := sha256.Sum256(secret)
		ring = append(ring, ticketKey{id: fingerprint[0], secret: secret})
	}
	return ring
}

// sign encodes a ticket for a subject.
func (ring keys) sign(t ticket, sub Subject) string {
	k := ring[0]
	t.user, t.item, t.purpose, t.origin = sub.User, sub.Item, purposes[sub.Purpose], k.origin(sub)
	raw := t.append(make([]byte, 0, ticketBytes), k.id)
	return ticketEncoding.EncodeToString(append(raw, k.seal(raw)...))
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
	return auth.MAC(k.secret, payload)[:ticketMACBytes]
}

// origin is the address that a ticket without a user is bound to. It is hashed with
// the key, because a ticket also travels through the verifier.
func (k ticketKey) origin(sub Subject) (origin [8]byte) {
	if sub.User == 0 {
		copy(origin[:], k.seal([]byte("origin\x00"+sub.address())))
	}
	return origin
}
