package reservation

import "encoding/binary"

const (
	// yesSeconds is how long this process caches that a user has a reservation:
	// longer than a shopper requests paths, and gone soon after to free the memory.
	yesSeconds = 600
	// noSeconds is how long it caches that a user has none, in freecache's whole
	// seconds: 1 … 2 s. It is this short because it only spares Postgres users who
	// retry repeatedly, and a row that an operator adds manually should count
	// immediately.
	noSeconds = 2
)

// The bits of a cached answer.
const (
	bitHeld = 1 << iota
	bitHuman
)

// memoryKey is an answer's key: item, user and closing time, for the reasons of
// setKey.
func (q *question) memoryKey() [24]byte {
	var k [24]byte
	binary.BigEndian.PutUint64(k[:], uint64(q.item))
	binary.BigEndian.PutUint64(k[8:], uint64(q.user))
	binary.BigEndian.PutUint64(k[16:], uint64(q.settled))
	return k
}

// remember caches a final answer.
func (s *Service) remember(q *question) {
	var bits byte
	seconds := noSeconds
	if q.have.held {
		bits, seconds = bitHeld, yesSeconds
	}
	if q.have.human {
		bits |= bitHuman
	}
	key := q.memoryKey()
	_ = s.memory.Set(key[:], []byte{bits}, seconds) // an entry of 25 bytes always fits
}

// recall returns a cached answer.
func (s *Service) recall(q *question) (answer, bool) {
	key := q.memoryKey()
	v, err := s.memory.Get(key[:])
	if err != nil || len(v) != 1 {
		return answer{}, false
	}
	return answer{held: v[0]&bitHeld != 0, human: v[0]&bitHuman != 0}, true
}
