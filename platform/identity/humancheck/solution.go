package humancheck

import (
	"strconv"
	"strings"
)

// solution is a header's text taken apart.
type solution struct {
	kind   Kind
	ticket string // of pow and slide
	number uint64 // the nonce, or the tile's place
	whole  string // what was hashed; the token of a verifier
}

const (
	// maxNumber is the greatest whole number that JavaScript counts to exactly.
	maxNumber = 1<<53 - 1
	// maxNumberDigits is how many digits it has.
	maxNumberDigits = 16
	// maxTokenBytes is the longest token of a verifier, as Turnstile documents it.
	maxTokenBytes = 2048
)

// parse takes a solution apart; errMalformed for anything that is not one. It says
// nothing about whether the solution is right.
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
		if sol.number, ok = parseNumber(number); !ok {
			return solution{}, errMalformed
		}
		return sol, nil
	default:
		return solution{}, errMalformed
	}
}

// parseNumber reads a decimal number in its one spelling: no sign, no leading zeros.
func parseNumber(text string) (uint64, bool) {
	if len(text) > maxNumberDigits || text == "" || (text[0] == '0' && text != "0") {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil && n <= maxNumber
}
