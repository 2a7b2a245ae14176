package reservation

import "encoding/binary"

const (
	// yesSeconds is how long this process keeps that somebody holds one: longer than
	// a shopper asks for paths, and gone soon after, for the room.
	yesSeconds = 600
	// noSeconds is how long it keeps that somebody holds none, in freecache's whole
	// seconds: 1 … 2 s. It is no longer because it only spares Postgres those who try
	// again and again, and a row that a person adds by hand should count at once.
	noSeconds = 2
)

// The bits of a kept answer.
const (
	bitHeld = 1 << iota
	bitHuman
)

// memoryKey names an answer by item, user and closing, for the reasons of setKey.
func (q *question) memoryKey() [24]byte {
	var k [24]byte
	binary.BigEndian.PutUint64(k[:], uint64(q.item))
	binary.BigEndian.PutUint64(k[8:], uint64(q.user))
	binary.BigEndian.PutUint64(k[16:], uint64(q.settled))
	return k
}

// remember keeps the answer to a question that has the same one for ever.
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

// recall returns an answer that was kept.
func (s *Service) recall(q *question) (answer, bool) {
	key := q.memoryKey()
	v, err := s.memory.Get(key[:])
	if err != nil || len(v) != 1 {
		return answer{}, false
	}
	return answer{held: v[0]&bitHeld != 0, human: v[0]&bitHuman != 0}, true
}
