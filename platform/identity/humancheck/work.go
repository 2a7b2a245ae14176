package humancheck

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"math/bits"
	"strconv"
)

// Bounds of the difficulty. Each bit doubles the work: 8 bits are 256 hashes and
// stop a script that computes nothing; 26 are 67 million, a minute or more on a
// phone.
const (
	MinDifficulty = 8
	MaxDifficulty = 26
)

// Solver is the module that solves the work in a browser. The shop serves it as
// /static/pow.js, where the back office loads it too.
//
//go:embed pow.js
var Solver string

// zeroBits returns how many zero bits the hash of a text begins with.
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

// ctxEvery is how many nonces are tried between two checks of the context: 0.1 ms.
const ctxEvery = 1 << 12

// Solve solves a challenge and returns the header's value. Its time varies a lot,
// 2^difficulty hashes on average. It returns the context's error when that ends
// first.
func Solve(ctx context.Context, challenge string, difficulty int) (string, error) {
	if difficulty < 0 || difficulty > MaxDifficulty {
		return "", errors.New("humancheck: the difficulty is above the maximum that a server requires")
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
