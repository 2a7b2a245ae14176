package ratelimit

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Repeats bounds how often one user sends rushes to this instance. It stands on
// the way of every rush, so it is GCRA in one atomic word of a fixed array:
// nothing is allocated, locked or asked.
//
// A word holds the newest TAT of the user it was last used by, and a tag of that
// user. Another user of the same word takes it over: whoever comes in between
// makes a flood cheaper by one burst, and nobody is ever refused for what somebody
// else did, but for one pair of users in 2⁴¹ (the same word and the same tag).
// Safe for concurrent use. A nil Repeats refuses nobody.
type Repeats struct {
	words          [repeatWords]atomic.Uint64
	interval, full uint64 // ms
	seed           uint64
}

const (
	// repeatWords are 512 KiB, which stay in a core's cache while a sale refuses;
	// a larger array would be waited for.
	repeatWords = 1 << 16
	// wordBits of the hash choose the word, tagBits others are the tag, and the rest
	// of the word is milliseconds: they come round after 17 years.
	wordBits = 16
	tagBits  = 25
	timeBits = 64 - tagBits
	// maxRepeats keeps an interval at a whole number of milliseconds: from there on
	// it is no limit on a person any more.
	maxRepeats = 1000
)

// NewRepeats allows each user perSecond rushes in a second, as many of them at
// once; 1 … 1000. 0 returns nil, which allows all.
func NewRepeats(perSecond int) (*Repeats, error) {
	if perSecond < 0 || perSecond > maxRepeats {
		return nil, fmt.Errorf("ratelimit: %d rushes of a user in a second; it may be 1 … %d, or 0 for no limit", perSecond, maxRepeats)
	}
	if perSecond == 0 {
		return nil, nil //nolint:nilnil // nil is the limit that is off
	}
	interval := uint64(1000 / perSecond) //nolint:gosec // 1 … 1000
	// The seed keeps anybody from choosing user ids that share a word.
	return &Repeats{interval: interval, full: interval * uint64(perSecond), seed: rand.Uint64()}, nil //nolint:gosec // 1 … 1000
}

// Allow takes one for a user, at a moment in Unix milliseconds. When it refuses,
// wait is how long until the next is allowed. A clock that is set back refuses
// nobody: a TAT that lies further ahead than any take puts it counts as past.
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

// mix is the finalizer of SplitMix64: every bit of a user id moves every bit of
// the hash.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
