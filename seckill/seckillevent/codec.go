package seckillevent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"stampede/platform/base/ids"
)

// The grant message is binary because every unit sold passes through it: about
// 30 bytes a grant, no reflection, no allocation beyond the buffer.
//
//	version    1 byte
//	flags      1 byte: bit 0 = PerActivity, the others must be zero
//	ID         16 bytes
//	ItemID, ActivityID, SessionID, Shard, Epoch, UnitPrice, PayWindow (ns)   zigzag varints
//	Currency, Title                                                        uvarint length, UTF-8
//	count      uvarint
//	count ×    No 16 bytes · User, Quantity, Seq − previous Seq            zigzag varints
//
// Version 2 is written only if a grant's payment window differs from the
// batch's. It is version 1, followed by
//
//	windows    uvarint, from 1
//	windows ×  place − previous place, PayWithin (s)                       uvarints
//
// where a place numbers the grants from 1, so that a difference is never 0.
//
// A version is never changed once released: a message may outlive the binary
// that wrote it, so a new layout gets a new version and Decode keeps supporting
// the old.
const (
	codecVersion        = 1
	codecVersionWindows = 2
	// codecVersionMost is more versions than there will be; a higher first byte
	// is corruption, since text and random bytes mostly start above it.
	codecVersionMost = 31
)

const flagPerActivity = 1

// Limits of a batch. Decode refuses more, so that a corrupted length cannot
// make the reader allocate without bound.
const (
	// MaxGrants is four times the largest batch a lane takes by default.
	MaxGrants = 2048
	// MaxTitleBytes is the catalogue's 120 characters at four bytes each.
	MaxTitleBytes = 480
	// currencyBytes is the length of an ISO 4217 code.
	currencyBytes = 3
	// MaxUnitPrice keeps price × quantity within int64 for every quantity.
	MaxUnitPrice = int64(1) << 32 * 1_000_000
	// MaxPayWindow is above the catalogue's seven days; a longer window is a
	// mistake.
	MaxPayWindow = 31 * 24 * time.Hour
)

// minGrantBytes is the shortest form of one grant: its number and three
// one-byte varints. A count that cannot fit in the rest of the message is
// refused before anything is allocated for it.
const minGrantBytes = 16 + 3

var (
	// ErrMalformed means that a message is not a valid batch of grants:
	// truncated, corrupted or out of bounds. Reading it again will not help.
	ErrMalformed = errors.New("seckillevent: malformed batch")
	// ErrNewer means that a newer version wrote the message; this one cannot
	// judge it and must leave it to an instance of the newer.
	ErrNewer = errors.New("seckillevent: batch of a newer version")
)

// Encode appends b to dst and returns the longer slice. It allocates at most
// once, when dst is too small. The batch must be within the limits above;
// otherwise Decode refuses the result.
func (b *Batch) Encode(dst []byte) []byte {
	// Grow once to the upper bound instead of several times on the way.
	need := 2 + 16 + 8*binary.MaxVarintLen64 + len(b.Currency) + len(b.Title) + 2*binary.MaxVarintLen32 +
		len(b.Grants)*(16+2*binary.MaxVarintLen64+binary.MaxVarintLen32)
	if cap(dst)-len(dst) < need {
		dst = append(make([]byte, 0, len(dst)+need), dst...)
	}
	flags := byte(0)
	if b.PerActivity {
		flags |= flagPerActivity
	}
	head := len(dst)
	dst = append(dst, codecVersion, flags)
	dst = append(dst, b.ID[:]...)
	for _, v := range [...]int64{b.ItemID, b.ActivityID, b.SessionID, int64(b.Shard), b.Epoch, b.UnitPrice, int64(b.PayWindow)} {
		dst = binary.AppendVarint(dst, v)
	}
	for _, s := range [...]string{b.Currency, b.Title} {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
		dst = append(dst, s...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(b.Grants)))
	seq, windows := int64(0), 0
	for i := range b.Grants {
		g := &b.Grants[i]
		dst = append(dst, g.No[:]...)
		dst = binary.AppendVarint(dst, g.User)
		dst = binary.AppendVarint(dst, int64(g.Quantity))
		dst = binary.AppendVarint(dst, g.Seq-seq) // Decode reverses the wrap-around
		seq = g.Seq
		if g.PayWithin != 0 {
			windows++
		}
	}
	if windows == 0 {
		return dst
	}
	dst[head] = codecVersionWindows
	return b.appendWindows(dst, windows)
}

// appendWindows appends the payment windows of the grants that differ from the
// batch's; windows is their number.
func (b *Batch) appendWindows(dst []byte, windows int) []byte {
	dst = binary.AppendUvarint(dst, uint64(windows)) //nolint:gosec // a count
	last := -1
	for i := range b.Grants {
		if within := b.Grants[i].PayWithin; within != 0 {
			dst = binary.AppendUvarint(dst, uint64(i-last)) //nolint:gosec // places rise
			dst = binary.AppendUvarint(dst, uint64(within)) //nolint:gosec // a negative one becomes one that Decode refuses
			last = i
		}
	}
	return dst
}

// takeWindows reads the output of appendWindows into grants; false if it cannot
// be that.
func takeWindows(r *reader, grants []Grant) bool {
	windows := r.uvarint()
	if windows == 0 || windows > uint64(len(grants)) {
		return false
	}
	at := uint64(0) // the place, from 1
	for range windows {
		step, within := r.uvarint(), r.uvarint()
		if r.failed || step == 0 || step > uint64(len(grants))-at || within == 0 || within > uint64(MaxPayWindow/time.Second) {
			return false
		}
		at += step
		grants[at-1].PayWithin = int32(within) //nolint:gosec // bounded above
	}
	return true
}

// Decode replaces b with what Encode wrote to data; b.Grants is reused if it is
// large enough. Strings are copied, data may be reused. Any error is
// ErrMalformed or ErrNewer. It checks what is common to the whole batch (ids, price,
// window, text); the reader judges each grant, so that one bad grant does not
// fail the others.
func (b *Batch) Decode(data []byte) error {
	r := reader{rest: data}
	version := r.byte()
	switch {
	case r.failed || version < codecVersion || version > codecVersionMost:
		return fmt.Errorf("%w: no version", ErrMalformed)
	case version > codecVersionWindows:
		return fmt.Errorf("%w: version %d, this binary reads up to %d", ErrNewer, version, codecVersionWindows)
	}
	flags := r.byte()
	id := r.id()
	itemID, activityID, sessionID := r.varint(), r.varint(), r.varint()
	shard, epoch, price, window := r.varint(), r.varint(), r.varint(), time.Duration(r.varint())
	currency, title := r.text(currencyBytes), r.text(MaxTitleBytes)
	count := r.uvarint()
	switch {
	case r.failed:
		return fmt.Errorf("%w: truncated or corrupted header", ErrMalformed)
	case flags&^flagPerActivity != 0:
		return fmt.Errorf("%w: unknown flags %08b", ErrMalformed, flags)
	case id.IsZero() || itemID <= 0 || activityID <= 0 || sessionID <= 0 || epoch < 0:
		return fmt.Errorf("%w: invalid ids: item %d, session %d, activity %d, epoch %d", ErrMalformed, itemID, sessionID, activityID, epoch)
	case shard < 0 || shard > 1<<15-1:
		return fmt.Errorf("%w: shard %d", ErrMalformed, shard)
	case price < 0 || price > MaxUnitPrice:
		return fmt.Errorf("%w: unit price %d", ErrMalformed, price)
	case window < 0 || window > MaxPayWindow:
		return fmt.Errorf("%w: payment window %s", ErrMalformed, window)
	case !currencyCode(currency):
		return fmt.Errorf("%w: currency %q", ErrMalformed, currency)
	case !storable(title):
		return fmt.Errorf("%w: title is not text that Postgres accepts", ErrMalformed)
	case count > MaxGrants || count > uint64(len(r.rest)/minGrantBytes):
		return fmt.Errorf("%w: %d grants in %d bytes", ErrMalformed, count, len(r.rest))
	}
	grants := b.Grants[:0]
	if uint64(cap(grants)) < count {
		grants = make([]Grant, 0, count)
	}
	seq := int64(0)
	for range count {
		g := Grant{No: r.id(), User: r.varint()}
		quantity := r.varint()
		if quantity != int64(int32(quantity)) { // the conversion is the check
			return fmt.Errorf("%w: quantity %d", ErrMalformed, quantity)
		}
		g.Quantity = int32(quantity)
		seq += r.varint()
		g.Seq = seq
		grants = append(grants, g)
	}
	if version == codecVersionWindows && !r.failed && !takeWindows(&r, grants) {
		return fmt.Errorf("%w: payment windows do not match %d grants", ErrMalformed, count)
	}
	if r.failed || len(r.rest) != 0 {
		return fmt.Errorf("%w: truncated or corrupted grants", ErrMalformed)
	}
	*b = Batch{
		ID: id, ItemID: itemID, ActivityID: activityID, SessionID: sessionID, Shard: int16(shard), Epoch: epoch,
		UnitPrice: price, Currency: currency, Title: title, PayWindow: window,
		PerActivity: flags&flagPerActivity != 0, Grants: grants,
	}
	return nil
}

func currencyCode(s string) bool {
	return len(s) == currencyBytes && !strings.ContainsFunc(s, func(c rune) bool { return c < 'A' || c > 'Z' })
}

// storable reports whether Postgres accepts s as text; a single title that it
// rejects would fail every order of its transaction.
func storable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// reader cuts values from the front of rest. After the first missing value it
// has failed and returns zeros, so that a caller checks once.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) take(n int) []byte {
	if r.failed || n > len(r.rest) {
		r.failed = true
		return nil
	}
	head := r.rest[:n]
	r.rest = r.rest[n:]
	return head
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) id() (id ids.ID) {
	copy(id[:], r.take(len(id)))
	return id
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.failed = true
		return 0
	}
	r.take(n)
	return v
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.failed = true
		return 0
	}
	r.take(n)
	return v
}

func (r *reader) text(limit int) string {
	n := r.uvarint()
	if n > uint64(limit) {
		r.failed = true
		return ""
	}
	return string(r.take(int(n)))
}
