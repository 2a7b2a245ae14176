// Package bloom is a set of users in bounded memory that may claim a user who was
// not added, and never denies one who was.
package bloom

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// bitsPerUser and probes give one false claim in a hundred at full load, and
// fewer because sizes are rounded up to a power of two.
const (
	bitsPerUser = 10
	probes      = 7
)

// Filter is a Bloom filter that is only ever added to. Two filters claim different
// strangers. All methods are safe for concurrent use and take no lock.
type Filter struct {
	words []atomic.Uint64
	mask  uint64 // of bit positions
	seed  uint64
}

// New returns a filter for up to users users.
func New(users int) *Filter {
	size := max(64, uint64(1)<<bits.Len64(uint64(users)*bitsPerUser-1))                        //nolint:gosec // a count
	return &Filter{words: make([]atomic.Uint64, size/64), mask: size - 1, seed: rand.Uint64()} //nolint:gosec // not a secret
}

// Add adds a user and reports whether the filter would have denied the user
// before, so that the caller can count its load.
func (f *Filter) Add(user int64) bool {
	h, step := f.probe(user)
	fresh := false
	for range probes {
		bit := uint64(1) << (h % 64)
		fresh = f.words[h&f.mask/64].Or(bit)&bit == 0 || fresh
		h += step
	}
	return fresh
}

// Has reports whether the user may have been added.
func (f *Filter) Has(user int64) bool {
	h, step := f.probe(user)
	for range probes {
		if f.words[h&f.mask/64].Load()&(1<<(h%64)) == 0 {
			return false
		}
		h += step
	}
	return true
}

// probe returns a user's first bit and the distance between its bits. An odd
// step visits different bits whatever the size.
func (f *Filter) probe(user int64) (first, step uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(user)^f.seed) //nolint:gosec // the bits, not the value, are hashed
	h := xxhash.Sum64(b[:])
	return h, bits.RotateLeft64(h, 32) | 1
}
