package inventory

import "hash/maphash"

const (
	// filterBits is how many bits a filter has for each user, and filterProbes how
	// many of them each user sets: one in 5,000 others then seems to be there.
	filterBits, filterProbes = 32, 4
	// filterMost bounds a filter: 16 MiB, in which one in 200 others seems to be
	// among ten million.
	filterMost = 1 << 27
)

// userFilter is a Bloom filter of users. Two filters mistake different users.
type userFilter struct {
	seed maphash.Seed
	mask uint64
	bits []uint64
}

func newUserFilter(users int64) *userFilter {
	size := uint64(64)
	for size < filterMost && size < uint64(users)*filterBits { //nolint:gosec // a count
		size *= 2
	}
	return &userFilter{seed: maphash.MakeSeed(), mask: size - 1, bits: make([]uint64, size/64)}
}

// probe calls each with the user's bits until it returns false.
func (f *userFilter) probe(user int64, each func(word *uint64, bit uint64) bool) bool {
	h := maphash.Comparable(f.seed, user)
	step := h>>32 | 1
	for range filterProbes {
		at := h & f.mask
		if !each(&f.bits[at/64], 1<<(at%64)) {
			return false
		}
		h += step
	}
	return true
}

func (f *userFilter) add(user int64) {
	f.probe(user, func(word *uint64, bit uint64) bool { *word |= bit; return true })
}

// has is true for every user who was added, and for few others.
func (f *userFilter) has(user int64) bool {
	return f.probe(user, func(word *uint64, bit uint64) bool { return *word&bit != 0 })
}
