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

// Flags of an entry. Versions before lines read the flags as a truth value (other
// than 1 is false, which is what their callers never look at) and refuse an entry
// that goes on after its texts. So they read every order that costs what its goods
// cost and was not paid, and read the others from Postgres.
const (
	flagPerActivity = 1 << iota
	flagKnowsLines  // written by a version that knows lines: always set
	flagLines       // followed by freight, discount and the time of the payment
	flagHandover    // followed by the handover
)

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
	if o.HasLines() || !o.PaidAt.IsZero() {
		flags |= flagLines
	}
	if o.Handover != "" {
		flags |= flagHandover
	}
	for _, v := range [...]int64{
		o.UserID, o.ItemID, o.ActivityID, o.SessionID, int64(o.Shard), flags, o.Epoch, int64(o.Quantity), o.UnitPrice,
		o.PayDeadline.UnixMicro(), o.CreatedAt.UnixMicro(), o.UpdatedAt.UnixMicro(),
	} {
		b = binary.AppendVarint(b, v)
	}
	for _, s := range [...]string{o.Currency, o.Title, o.Status, o.Reason} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	if flags&flagLines != 0 {
		for _, v := range [...]int64{o.Freight, o.Discount, o.PaidAt.UnixMicro()} {
			b = binary.AppendVarint(b, v)
		}
	}
	if flags&flagHandover != 0 {
		b = append(binary.AppendUvarint(b, uint64(len(o.Handover))), o.Handover...)
	}
	return b
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
	o.UserID, o.ItemID, o.ActivityID, o.SessionID = r.number(), r.number(), r.number(), r.number()
	o.Shard = int16(r.number()) //nolint:gosec // what appendCached widened
	flags := r.number()
	o.PerActivity = flags&flagPerActivity != 0
	o.Epoch = r.number()
	o.Quantity = int32(r.number()) //nolint:gosec // as above
	o.UnitPrice = r.number()
	o.PayDeadline, o.CreatedAt, o.UpdatedAt = r.time(), r.time(), r.time()
	o.Currency, o.Title, o.Status, o.Reason = r.text(), r.text(), r.text(), r.text()
	if flags&flagLines != 0 {
		o.Freight, o.Discount, o.PaidAt = r.number(), r.number(), r.time()
	}
	if flags&flagHandover != 0 {
		o.Handover = r.text()
	}
	if r.bad || len(r.rest) != 0 || flags&flagKnowsLines == 0 && o.Version > 1 {
		return orderevent.Order{}, errNotCached
	}
	return o, nil
}

// cachedReader takes fields from the front; after an error it returns zeros.
type cachedReader struct {
	rest []byte
	bad  bool
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

func (r *cachedReader) time() time.Time { return time.UnixMicro(r.number()).UTC() }

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
