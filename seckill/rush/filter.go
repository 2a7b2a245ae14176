package rush

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// holderFilter remembers users so that "does not hold a unit" can be answered
// from memory: a Bloom filter that is only ever added to. has never denies a
// user that was added; it may claim one that was not, which costs no more than
// a call to Redis. All methods are safe for concurrent use and take no lock.
type holderFilter struct {
	words []atomic.Uint64
	mask  uint64 // of bit positions
}

const (
	// filterBitsPerHolder and filterProbes give one false claim in a hundred at
	// full load, and fewer because sizes are rounded up to a power of two.
	filterBitsPerHolder = 10
	filterProbes        = 7
	// minFilterHolders keeps the smallest filter from filling up with an item
	// whose few units change hands often.
	minFilterHolders = 1024
)

// newHolderFilter returns a filter for up to holders users.
func newHolderFilter(holders int) *holderFilter {
	want := uint64(max(holders, minFilterHolders)) * filterBitsPerHolder
	size := uint64(1) << bits.Len64(want-1)
	return &holderFilter{words: make([]atomic.Uint64, size/64), mask: size - 1}
}

// add adds a user and reports whether the filter would have denied it before,
// so that the caller can count its load.
func (f *holderFilter) add(user int64) bool {
	h, step := f.probe(user)
	fresh := false
	for range filterProbes {
		bit := uint64(1) << (h % 64)
		fresh = f.words[h&f.mask/64].Or(bit)&bit == 0 || fresh
		h += step
	}
	return fresh
}

// has reports whether the user may have been added.
func (f *holderFilter) has(user int64) bool {
	h, step := f.probe(user)
	for range filterProbes {
		if f.words[h&f.mask/64].Load()&(1<<(h%64)) == 0 {
			return false
		}
		h += step
	}
	return true
}

// probe returns a user's first bit and the distance between its bits. An odd
// step visits filterProbes different bits whatever the size.
func (f *holderFilter) probe(user int64) (first, step uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(user)) // the bits, not the value, are hashed
	h := xxhash.Sum64(b[:])
	return h, bits.RotateLeft64(h, 32) | 1
}
