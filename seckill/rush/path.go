package rush

import (
	"encoding/base64"
	"errors"
	"math"

	"stampede/platform/base/ids"
)

// A rush path is the credential of one attempt: a fixed binary payload and a
// truncated HMAC over it, in unpadded base64url. Fixed offsets instead of a
// general format keep the check free of allocations and give each path exactly
// one spelling, so that a path can be compared, counted and logged as text.
//
//	 0  1  version
//	 1  1  key id
//	 2  8  user
//	10  8  item
//	18  2  quantity
//	20 16  order number
//	36  6  usable from, Unix milliseconds
//	42  6  expires at, Unix milliseconds
//	48 16  first half of HMAC-SHA256 over bytes 0 … 47
//
// Version 2 is the path of a shopper who has less time to pay than others. Its
// times count from pathEpoch, which saves a byte of each for that window; so
// all paths have the same length, and nearly every shopper still gets version
// 1.
//
//	36  5  usable from, milliseconds since pathEpoch
//	41  5  expires at, likewise
//	46  2  payment window, seconds, from 1
const (
	pathVersion = 1
	// pathVersionShort carries a payment window.
	pathVersionShort = 2

	pathKeyAt      = 1
	pathUserAt     = 2
	pathItemAt     = 10
	pathQuantityAt = 18
	pathNumberAt   = 20
	pathFromAt     = 36
	pathUntilAt    = 42
	pathMACAt      = 48

	pathShortUntilAt = 41
	pathWindowAt     = 46
	// pathEpoch is 2020-01-01 UTC in Unix milliseconds: five bytes of milliseconds
	// reach from there into the year 2054.
	pathEpoch = 1_577_836_800_000

	// pathMACBytes is 128 bits: a path lives four minutes, or fourteen under a risk
	// rule, and one guess costs a request.
	pathMACBytes = 16
	pathBytes    = pathMACAt + pathMACBytes
	// pathTextBytes is the length of every path as text.
	pathTextBytes = (pathBytes*8 + 5) / 6
)

// errBadPath does not say what is wrong with a path: a client that forges one
// learns only that it is invalid.
var errBadPath = errors.New("seckill: invalid rush path")

// pathEncoding refuses stray bits in the last character. It would still skip
// line breaks, which the fixed length rules out.
var pathEncoding = base64.RawURLEncoding.Strict()

// token is the content of a rush path: this user may try once to get this many
// units of this item, under this order number, between these two times.
type token struct {
	user     int64
	item     int64
	quantity int32 // 1 … 65535
	no       ids.ID
	from     int64 // Unix milliseconds; the opening
	until    int64 // Unix milliseconds
	// payWithin is the payment window in seconds, up to 65535, if it is shorter
	// than the item's; 0 if it is the item's.
	payWithin int32
}

// put writes the payload without its MAC.
func (t *token) put(b *[pathBytes]byte, key byte) {
	b[0], b[pathKeyAt] = pathVersion, key
	putInt(b[pathUserAt:pathItemAt], t.user)
	putInt(b[pathItemAt:pathQuantityAt], t.item)
	putInt(b[pathQuantityAt:pathNumberAt], int64(t.quantity))
	copy(b[pathNumberAt:], t.no[:])
	if t.payWithin > 0 {
		b[0] = pathVersionShort
		putInt(b[pathFromAt:pathShortUntilAt], t.from-pathEpoch)
		putInt(b[pathShortUntilAt:pathWindowAt], t.until-pathEpoch)
		putInt(b[pathWindowAt:pathMACAt], int64(t.payWithin))
		return
	}
	putInt(b[pathFromAt:pathUntilAt], t.from)
	putInt(b[pathUntilAt:pathMACAt], t.until)
}

// take reads a payload whose MAC has been checked.
func (t *token) take(b *[pathBytes]byte) {
	t.user, t.item = takeInt(b[pathUserAt:pathItemAt]), takeInt(b[pathItemAt:pathQuantityAt])
	t.quantity = int32(takeInt(b[pathQuantityAt:pathNumberAt])) //nolint:gosec // two bytes
	copy(t.no[:], b[pathNumberAt:pathFromAt])
	if b[0] == pathVersionShort {
		t.from = takeInt(b[pathFromAt:pathShortUntilAt]) + pathEpoch
		t.until = takeInt(b[pathShortUntilAt:pathWindowAt]) + pathEpoch
		t.payWithin = int32(takeInt(b[pathWindowAt:pathMACAt])) //nolint:gosec // two bytes
		return
	}
	t.payWithin = 0
	t.from, t.until = takeInt(b[pathFromAt:pathUntilAt]), takeInt(b[pathUntilAt:pathMACAt])
}

// sane reports whether the payload can represent t without loss.
func (t *token) sane() bool {
	least, most := int64(0), int64(1<<48-1) // up to the year 10889
	if t.payWithin > 0 {
		least, most = pathEpoch, pathEpoch+1<<40-1
	}
	return t.user > 0 && t.item > 0 && t.quantity >= 1 && t.quantity <= math.MaxUint16 && !t.no.IsZero() &&
		t.payWithin >= 0 && t.payWithin <= math.MaxUint16 && t.from >= least && t.from <= t.until && t.until <= most
}

// putInt writes the last bytes of v, big-endian.
func putInt(b []byte, v int64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = byte(v) //nolint:gosec // the lowest byte
		v >>= 8
	}
}

// takeInt reads what putInt wrote.
func takeInt(b []byte) (v int64) {
	for _, c := range b {
		v = v<<8 | int64(c)
	}
	return v
}
