package loadgen

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// The answers that the tool itself defines, and those codes of the server that decide
// what a shopper does next.
const (
	answerQueued = "queued" // 202
	// pathRefused is the prefix of the code that refused a path.
	pathRefused = "path: "
	// answerNone means that there was no answer: the number may be in line.
	answerNone = "no-answer"
	// answerUnknown is the server's code for an attempt that may be in line.
	answerUnknown = "unknown"
	// answerFenced is the server's code for an attempt that it did not take because
	// the item is being loaded.
	answerFenced = "fenced"
	// answerWaits is the server's code for a shopper in line whose turn has not come.
	answerWaits = "wait-your-turn"
	// answerAlreadyBought is the server's code for an attempt of a user who holds
	// units under the number that the answer names.
	answerAlreadyBought = "already-bought"
)

// leftToStatus are the answers after which the order's status tells the outcome.
var leftToStatus = []string{answerQueued, answerNone, answerUnknown}

// isRefusal reports whether an answer refused a rush.
func isRefusal(answer string) bool {
	return answer != "" && !slices.Contains(leftToStatus, answer) && !strings.HasPrefix(answer, pathRefused)
}

// maxViolations bounds how many are kept in full; the report gives the total.
const maxViolations = 1000

// tally counts answers by code. Safe for concurrent use.
type tally struct {
	mu         sync.Mutex
	names      map[string]string // each code once: there are a million answers and a dozen codes
	answers    map[string]int64
	troubles   map[string]int64
	violations []Violation
}

// Violation is a promise to a shopper that the server broke.
type Violation struct {
	OrderNo string `json:"order_no"`
	Detail  string `json:"detail"`
}

func newTally() *tally {
	return &tally{names: map[string]string{}, answers: map[string]int64{}, troubles: map[string]int64{}}
}

// name returns a code as a string that all answers with it share.
func (t *tally) name(code []byte) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	name, known := t.names[string(code)]
	if !known {
		name = string(code)
		t.names[name] = name
	}
	return name
}

func (t *tally) add(answer string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answers[answer]++
}

// counts returns the answers by code.
func (t *tally) counts() map[string]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.answers)
}

// trouble records something that stopped a winner without being a broken
// promise, such as a late payment.
func (t *tally) trouble(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.troubles[what]++
}

func (t *tally) violate(no, detail string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.violations) < maxViolations {
		t.violations = append(t.violations, Violation{no, detail})
	}
}
