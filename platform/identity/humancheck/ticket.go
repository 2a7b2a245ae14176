package humancheck

import (
	"encoding/base64"
	"encoding/binary"
	"time"
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

	ticketKeyAt        = 1
	ticketFormAt       = 2
	ticketPurposeAt    = 3
	ticketDifficultyAt = 4
	ticketUserAt       = 5
	ticketItemAt       = 13
	ticketOriginAt     = 21
	ticketIDAt         = 29
	ticketIssuedAt     = 45
	ticketLifetimeAt   = 51
	ticketMACAt        = 53

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

// put writes the payload without its MAC.
func (t *ticket) put(b *[ticketBytes]byte, key byte) {
	b[0], b[ticketKeyAt], b[ticketFormAt] = ticketVersion, key, byte(t.form)
	b[ticketPurposeAt], b[ticketDifficultyAt] = t.purpose, t.difficulty
	binary.BigEndian.PutUint64(b[ticketUserAt:], uint64(t.user))
	binary.BigEndian.PutUint64(b[ticketItemAt:], uint64(t.item))
	copy(b[ticketOriginAt:], t.origin[:])
	copy(b[ticketIDAt:], t.id[:])
	var issued [8]byte
	binary.BigEndian.PutUint64(issued[:], uint64(t.issued))
	copy(b[ticketIssuedAt:], issued[2:]) // 48 bits last until the year 10889
	binary.BigEndian.PutUint16(b[ticketLifetimeAt:], t.lifetime)
}

// take reads a payload whose MAC has been checked.
func (t *ticket) take(b *[ticketBytes]byte) {
	t.form, t.purpose, t.difficulty = form(b[ticketFormAt]), b[ticketPurposeAt], b[ticketDifficultyAt]
	t.user = int64(binary.BigEndian.Uint64(b[ticketUserAt:]))
	t.item = int64(binary.BigEndian.Uint64(b[ticketItemAt:]))
	copy(t.origin[:], b[ticketOriginAt:])
	copy(t.id[:], b[ticketIDAt:])
	var issued [8]byte
	copy(issued[2:], b[ticketIssuedAt:ticketLifetimeAt])
	t.issued = int64(binary.BigEndian.Uint64(issued[:]))
	t.lifetime = binary.BigEndian.Uint16(b[ticketLifetimeAt:])
}

// ticketEncoding would skip line breaks, but the fixed length rules them out.
var ticketEncoding = base64.RawURLEncoding.Strict()
