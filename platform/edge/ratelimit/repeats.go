package ratelimit

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Repeats bounds how often one user sends rushes to this instance. It is on the path
// of every rush, so it is GCRA in one atomic word of a fixed array: it allocates
// nothing, takes no lock and calls no store.
//
// A word contains the newest TAT of the user it was last used by, and a tag of that
// user. Another user of the same word takes it over: a user who gets in between allows
// a flood one more burst, and a user is never refused because of another one, except
// for one pair of users in 2⁴¹ (the same word and the same tag). Safe for concurrent
// use. A nil Repeats refuses nothing.
type Repeats struct {
	words          [repeatWords]atomic.Uint64
	interval, full uint64 // ms
	seed           uint64
}

const (
	// repeatWords take 512 KiB, which stay in a core's cache while a sale refuses; a
	// larger array would cost cache misses.
	repeatWords = 1 << 16
	// wordBits of the hash choose the word, tagBits others are the tag, and the rest
	// of the word is milliseconds, which wrap around after 17 years.
	wordBits = 16
	tagBits  = 25
	timeBits = 64 - tagBits
	// maxRepeats keeps an interval at a whole number of milliseconds; above it the
	// limit would not restrict a person any more.
	maxRepeats = 1000
)

// NewRepeats allows each user perSecond rushes a second, with a burst of as many; 1
// … 1000. 0 returns nil, which allows all.
func NewRepeats(perSecond int) (*Repeats, error) {
	if perSecond < 0 || perSecond > maxRepeats {
		return nil, fmt.Errorf("ratelimit: rushes of a user per second must be 1 … %[2]d, or 0 for no limit, not %[1]d", perSecond, maxRepeats)
	}
	if perSecond == 0 {
		return nil, nil // nil is the limit that is off
	}
	interval := uint64(1000 / perSecond) //nolint:gosec // 1 … 1000
	// The seed keeps an attacker from choosing user ids that share a word.
	return &Repeats{interval: interval, full: interval * uint64(perSecond), seed: rand.Uint64()}, nil //nolint:gosec // 1 … 1000
}

// Allow takes one for a user, at a time in Unix milliseconds. When it refuses, wait
// is how long until the next is allowed. A clock that is set back refuses no user: a
// TAT that lies further ahead than any take puts it counts as past.
func (r *Repeats) Allow(user, unixMilli int64) (wait time.Duration, ok bool) {
	if r == nil {
		return 0, true
	}
	const timeMask = 1<<timeBits - 1
	now := uint64(unixMilli) & timeMask //nolint:gosec // bits of a clock
	h := mix(uint64(user) ^ r.seed)     //nolint:gosec // bits to hash
	word, tag := &r.words[h>>(64-wordBits)], h<<timeBits
	for {
		old := word.Load()
		tat := old & timeMask
		if old&^timeMask != tag || tat < now || tat > now+r.full {
			tat = now
		}
		next := tat + r.interval
		if next-now > r.full {
			return time.Duration(next-now-r.full) * time.Millisecond, false //nolint:gosec // at most a second
		}
		if word.CompareAndSwap(old, tag|next&timeMask) {
			return 0, true
		}
	}
}

// mix is the finalizer of SplitMix64: every bit of a user id affects every bit of
// the hash.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
