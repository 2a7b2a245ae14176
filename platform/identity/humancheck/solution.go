package humancheck

import (
	"strconv"
	"strings"
)

// solution is a parsed header.
type solution struct {
	kind   Kind
	ticket string // for pow and slide
	number uint64 // the nonce, or the tile's position
	drag   drag   // for slide; nil if it was left out
	whole  string // what was hashed; the token of a verifier
}

const (
	// maxNumber is the greatest integer that JavaScript represents exactly.
	maxNumber = 1<<53 - 1
	// maxNumberDigits is how many digits it has.
	maxNumberDigits = 16
	// maxTokenBytes is the longest token of a verifier, as Turnstile documents it.
	maxTokenBytes = 2048
)

// parse parses a solution and returns errMalformed for anything else. It does not
// check whether the solution is right.
func parse(text string) (solution, error) {
	kind, rest, ok := strings.Cut(text, ":")
	if !ok || len(text) > MaxSolutionBytes {
		return solution{}, errMalformed
	}
	sol := solution{kind: Kind(kind), whole: rest}
	switch sol.kind {
	case Verifier:
		if rest == "" || len(rest) > maxTokenBytes || strings.ContainsFunc(rest, func(c rune) bool { return c <= ' ' || c > '~' }) {
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
