package humancheck

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// solution is a parsed header.
type solution struct {
	kind   Kind
	ticket string // for pow and slide, and for a verifier that does not return it
	number uint64 // the nonce, or the tile's position
	drag   drag   // for slide; nil if it was left out
	token  string // what a verifier's widget gave
	whole  string // what was hashed
}

const (
	// maxNumber is the greatest integer that JavaScript represents exactly.
	maxNumber = 1<<53 - 1
	// maxNumberDigits is how many digits it has.
	maxNumberDigits = 16
	// maxSiteverifyBytes is the longest token of siteverify, as Turnstile documents it.
	maxSiteverifyBytes = 2048
)

// parse parses a solution and returns errMalformed for anything else. It does not
// check whether the solution is right. A verifier's ticket precedes its token if bound.
func parse(text string, bound bool) (solution, error) {
	kind, rest, ok := strings.Cut(text, ":")
	if !ok || len(text) > MaxSolutionBytes {
		return solution{}, errMalformed
	}
	sol := solution{kind: Kind(kind), whole: rest}
	switch sol.kind {
	case Verifier:
		if sol.token = rest; bound {
			sol.ticket, sol.token, ok = strings.Cut(rest, ".")
		}
		if !ok || bound && len(sol.ticket) != ticketTextBytes || sol.token == "" || strings.ContainsFunc(rest, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return solution{}, errMalformed
		}
		return sol, nil
	case Pow, Slide:
		ticket, number, ok := strings.Cut(rest, ".")
		if !ok || len(ticket) != ticketTextBytes {
			return solution{}, errMalformed
		}
		sol.ticket = ticket
		if sol.kind == Slide {
			var moves string
			var has bool
			if number, moves, has = strings.Cut(number, "."); has {
				if sol.drag, ok = parseDrag(moves); !ok {
					return solution{}, errMalformed
				}
			}
		}
		if sol.number, ok = parseNumber(number); !ok {
			return solution{}, errMalformed
		}
		return sol, nil
	default:
		return solution{}, errMalformed
	}
}

// parseNumber parses a decimal number in its only accepted spelling: no sign, no
// leading zeros.
func parseNumber(text string) (uint64, bool) {
	if len(text) > maxNumberDigits || text == "" || (text[0] == '0' && text != "0") {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil && n <= maxNumber
}

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

// drag is how a slide's tile moved: its left edge, and when.
type drag []move

type move struct {
	at time.Duration // since the first move
	x  int           // pixels
}

// A drag as the header carries it: "<ms>,<x>;<ms>,<x>;…".
const (
	// maxMoves bounds a drag; the page sends 100, evenly thinned.
	maxMoves = 128
	// leastMoves and leastDrag are less than what people need. A browser reports a
	// move for each frame, and five presses of arrow keys are one each.
	leastMoves, leastDrag = 5, 200 * time.Millisecond
	// leastBend is how many pixels a drag is off the straight line from its first
	// move to its last at some moment: people start and stop, and a key that is held
	// repeats after a pause.
	leastBend = 2
)

// parseDrag parses a drag; false if it is none, or its times decrease.
func parseDrag(text string) (drag, bool) {
	var d drag
	for part := range strings.SplitSeq(text, ";") {
		ms, x, _ := strings.Cut(part, ",")
		at, ok := parseNumber(ms)
		edge, isEdge := parseNumber(x)
		next := move{at: time.Duration(at) * time.Millisecond, x: int(edge)} //nolint:gosec // bounded below
		if !ok || !isEdge || at > uint64(challengeLifetime/time.Millisecond) || edge > math.MaxInt16 ||
			len(d) == maxMoves || len(d) > 0 && next.at < d[len(d)-1].at {
			return nil, false
		}
		d = append(d, next)
	}
	return d, true
}

// byHand reports whether a person may have dragged the tile to x within a time.
func (d drag) byHand(x uint64, within time.Duration) bool {
	if len(d) < leastMoves {
		return false
	}
	first, last := d[0], d[len(d)-1]
	took := last.at - first.at
	if took < leastDrag || took > within || uint64(last.x) != x { //nolint:gosec // not negative
		return false
	}
	for _, m := range d {
		line := float64(first.x) + float64(last.x-first.x)*float64(m.at-first.at)/float64(took)
		if math.Abs(float64(m.x)-line) >= leastBend {
			return true
		}
	}
	return false
}
