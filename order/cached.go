package order

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strconv"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
)

// An order in the cache is "o<version>:" and its fields: integers as varints,
// texts behind their length, times in microseconds, as Postgres has them. That
// is a quarter of its JSON for Redis to receive, keep and append to its log,
// and takes a tenth of the work to read. The version comes first in plain
// digits because put.lua compares it. Any other value in the cache is not an
// order and is replaced by the next put.
const cachedMark = 'o'

// Flags of an entry, which are in the place of PerActivity. Versions before lines read
// them as a truth value (other than 1 is false, which is what their callers never look at)
// and refuse an entry that goes on after its texts. So they read every order that costs
// what its goods cost and was not paid, and read the others from Postgres.
const (
	flagPerActivity = 1 << iota
	flagKnowsLines  // written by a version that knows lines: always set
	flagLines       // followed by the lines
	flagHandover    // followed by the handover
)

// part is fields of an entry that only some orders have, behind those that all have.
type part struct {
	flag   int64 // says that they follow
	has    bool  // the order has them
	fields [3]any
}

// parts are an entry's, in their order; a new one is added at the end, with its flag.
func parts(o *orderevent.Order) [2]part {
	return [...]part{
		{flagLines, o.HasLines() || !o.PaidAt.IsZero(), [3]any{&o.Freight, &o.Discount, &o.PaidAt}},
		{flagHandover, o.Handover != "", [3]any{&o.Handover}},
	}
}

// cachedBytes is the size of an order with a title of usual length.
const cachedBytes = 160

// appendCached appends an order's cache entry.
func appendCached(b []byte, o *orderevent.Order) []byte {
	b = strconv.AppendInt(append(b, cachedMark), int64(o.Version), 10)
	b = append(append(b, ':'), o.No[:]...)
	flags := int64(flagKnowsLines)
	if o.PerActivity {
		flags |= flagPerActivity
	}
	for _, p := range parts(o) {
		if p.has {
			flags |= p.flag
		}
	}
	for _, f := range fields(o) {
		b = appendField(b, f, flags)
	}
	for _, p := range parts(o) {
		for _, f := range p.fields {
			if p.has && f != nil {
				b = appendField(b, f, flags)
			}
		}
	}
	return b
}

// appendField appends one field of an entry; the flags take the place of a truth value.
func appendField(b []byte, field any, flags int64) []byte {
	switch v := field.(type) {
	case *int64:
		return binary.AppendVarint(b, *v)
	case *int32:
		return binary.AppendVarint(b, int64(*v))
	case *int16:
		return binary.AppendVarint(b, int64(*v))
	case *bool:
		return binary.AppendVarint(b, flags)
	case *time.Time:
		return binary.AppendVarint(b, v.UnixMicro())
	case *string:
		return append(binary.AppendUvarint(b, uint64(len(*v))), *v...)
	default:
		panic("order: a field of a type that no cache entry has")
	}
}

var errNotCached = errors.New("order: not an entry of the order cache")

// readCached reads what appendCached wrote, here or in another version. A version
// that knows no lines leaves them out; only of an order that never changed is it
// known that it had none.
func readCached(raw []byte) (o orderevent.Order, err error) {
	version, rest, ok := bytes.Cut(raw, []byte{':'})
	if !ok || len(version) < 2 || version[0] != cachedMark || len(rest) < len(ids.ID{}) {
		return o, errNotCached
	}
	n, err := strconv.ParseInt(string(version[1:]), 10, 32)
	if err != nil {
		return o, errNotCached
	}
	o.Version = int32(n)
	copy(o.No[:], rest)
	r := cachedReader{rest: rest[len(o.No):]}
	for _, f := range fields(&o) {
		r.read(f)
	}
	for _, p := range parts(&o) {
		for _, f := range p.fields {
			if r.flags&p.flag != 0 {
				r.read(f) // nothing into nil
			}
		}
	}
	if r.bad || len(r.rest) != 0 || r.flags&flagKnowsLines == 0 && o.Version > 1 {
		return orderevent.Order{}, errNotCached
	}
	return o, nil
}

// cachedReader takes fields from the front; after an error it reads zeros.
type cachedReader struct {
	rest  []byte
	flags int64
	bad   bool
}

// read is the reverse of appendField.
func (r *cachedReader) read(field any) {
	switch v := field.(type) {
	case *int64:
		*v = r.number()
	case *int32:
		*v = int32(r.number()) //nolint:gosec // what appendField widened
	case *int16:
		*v = int16(r.number()) //nolint:gosec // as above
	case *bool:
		r.flags = r.number()
		*v = r.flags&flagPerActivity != 0
	case *time.Time:
		*v = time.UnixMicro(r.number()).UTC()
	case *string:
		*v = r.text()
	}
}

func (r *cachedReader) number() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *cachedReader) text() string {
	size, n := binary.Uvarint(r.rest)
	if n <= 0 || size > uint64(len(r.rest)-n) {
		r.bad, r.rest = true, nil
		return ""
	}
	s := string(r.rest[n : n+int(size)]) //nolint:gosec // bounded right above
	r.rest = r.rest[n+int(size):]
	return s
}
