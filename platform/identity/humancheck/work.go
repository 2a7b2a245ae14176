package humancheck

import (
	"context"
	"crypto/sha256"
	"errors"
	"math/bits"
	"strconv"
)

// Bounds of the difficulty. Each bit doubles the work: 8 bits are 256 hashes and
// tell a script that never computes anything from a client; 26 are 67 million, a
// minute or more on a phone.
const (
	MinDifficulty = 8
	MaxDifficulty = 26
)

// zeroBits is how many zero bits the hash of a text begins with.
func zeroBits(text []byte) int {
	sum := sha256.Sum256(text)
	n := 0
	for _, b := range sum {
		if b != 0 {
			return n + bits.LeadingZeros8(b)
		}
		n += 8
	}
	return n
}

// ctxEvery is how many nonces are tried between two looks at the context: 0.1 ms.
const ctxEvery = 1 << 12

// Solve does the work of a challenge and returns what to send in the header. The
// time it takes varies a lot, 2^difficulty hashes on average. It returns the
// context's error when that ends first.
func Solve(ctx context.Context, challenge string, difficulty int) (string, error) {
	if difficulty < 0 || difficulty > MaxDifficulty {
		return "", errors.New("humancheck: the difficulty is beyond what any server of ours asks for")
	}
	text := append([]byte(challenge), '.')
	start := len(text)
	for n := uint64(0); n <= maxNumber; n++ {
		if n%ctxEvery == 0 && ctx.Err() != nil {
			return "", ctx.Err()
		}
		text = strconv.AppendUint(text[:start], n, 10)
		if zeroBits(text) >= difficulty {
			return string(Pow) + ":" + string(text), nil
		}
	}
	return "", errors.New("humancheck: no number solves this challenge")
}
