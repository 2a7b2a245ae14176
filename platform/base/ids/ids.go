// Package ids mints the numbers that name attempts, orders, payments and
// messages: UUIDv7, written as 32 lower-case hex digits so that they fit every
// payment provider's field, with the owner's bucket in the low 10 bits of
// numbers that belong to a user, and in tagged numbers what they are about in
// the 16 bits from the 96th on.
package ids

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// Buckets is how many buckets users fall into: enough to spread over any
// number of database shards a shop will have, small enough for 10 bits.
const Buckets = 1024

func init() {
	// One read of the system's randomness per number would be a system call per
	// attempt; the pool reads 256 bytes at a time.
	uuid.EnableRandPool()
}

// ID is a 128-bit number. The zero ID names nothing. It is comparable and
// ordered by time of minting when compared as bytes or as text.
type ID [16]byte

// New mints a number that belongs to no user, for a message or an outbox row.
func New() ID {
	u, err := uuid.NewV7()
	if err != nil {
		// The system's randomness source has failed; no number can be minted.
		panic("ids: " + err.Error())
	}
	return ID(u)
}

// NewFor mints a number for a user, with the user's bucket in its low 10 bits.
func NewFor(user int64) ID {
	id := New()
	b := Bucket(user)
	id[14] = id[14]&^0x03 | byte(b>>8)
	id[15] = byte(b)
	return id
}

// NewTagged mints a number for a user at an instant of the caller's clock, which
// other machines may judge it by. The tag narrows down what the number is about
// without a lookup; it proves nothing, since anybody can make up a number.
func NewTagged(user int64, tag uint16, at time.Time) ID {
	id, minted := NewFor(user), Lowest(at)
	copy(id[:6], minted[:6])
	binary.BigEndian.PutUint16(id[12:14], tag)
	return id
}

// Lowest sorts before every number that is minted at that time or later.
func Lowest(at time.Time) (id ID) {
	binary.BigEndian.PutUint64(id[:], uint64(max(0, at.UnixMilli()))<<16) //nolint:gosec // not negative
	return id
}

// Tag reads the tag from a number minted by NewTagged.
func (id ID) Tag() uint16 { return binary.BigEndian.Uint16(id[12:14]) }

// Bucket is xxhash64 of the user id as 8 little-endian bytes, modulo Buckets.
// Stored rows depend on it, so a golden test pins it permanently.
func Bucket(user int64) int16 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(user)) // the bits, not the value, are hashed
	return int16(xxhash.Sum64(b[:]) % Buckets)
}

// Bucket reads the bucket from a number minted by NewFor or NewTagged.
func (id ID) Bucket() int16 { return int16(id[14]&0x03)<<8 | int16(id[15]) }

// BucketsOf returns the bucket of each number. A statement about many numbers names
// both, so that Postgres goes to one partition for each.
func BucketsOf(nos []ID) []int16 {
	buckets := make([]int16, len(nos))
	for i, no := range nos {
		buckets[i] = no.Bucket()
	}
	return buckets
}

// Time is when the number was minted, to the millisecond.
func (id ID) Time() time.Time {
	ms := int64(id[0])<<40 | int64(id[1])<<32 | int64(id[2])<<24 | int64(id[3])<<16 | int64(id[4])<<8 | int64(id[5])
	return time.UnixMilli(ms).UTC()
}

// IsZero reports whether id names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// String is the 32 lower-case hex digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// AppendText appends the 32 lower-case hex digits to b.
func (id ID) AppendText(b []byte) ([]byte, error) { return hex.AppendEncode(b, id[:]), nil }

// MarshalText writes the 32 lower-case hex digits.
func (id ID) MarshalText() ([]byte, error) { return id.AppendText(nil) }

// UnmarshalText reads what MarshalText wrote.
func (id *ID) UnmarshalText(text []byte) error {
	v, err := Parse(string(text))
	if err != nil {
		return err
	}
	*id = v
	return nil
}

// Parse reads 32 lower-case hex digits; anything else is an error.
func Parse(s string) (ID, error) {
	var id ID
	if len(s) != 32 {
		return id, fmt.Errorf("ids: a number must have 32 hex digits, got %d characters", len(s))
	}
	for _, c := range []byte(s) {
		if c >= 'A' && c <= 'F' {
			return id, fmt.Errorf("ids: a number must be in lower case")
		}
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return ID{}, fmt.Errorf("ids: parse number: %w", err)
	}
	return id, nil
}

// UUIDValue lets pgx write the number as a Postgres uuid.
func (id ID) UUIDValue() (pgtype.UUID, error) { return pgtype.UUID{Bytes: id, Valid: true}, nil }

// ScanUUID lets pgx read a Postgres uuid; NULL is the zero ID.
func (id *ID) ScanUUID(v pgtype.UUID) error {
	*id = v.Bytes
	return nil
}
