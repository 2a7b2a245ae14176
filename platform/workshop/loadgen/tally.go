package loadgen

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// answerID represents an answer's code in memory: there are a million answers
// and a dozen codes.
type answerID uint8

// The answers that the tool itself defines; codes get the ids after them.
const (
	idOpen    answerID = iota // not answered yet
	idQueued                  // 202
	idNone                    // no answer: the number may be in line
	idUnknown                 // the server answered that the outcome is unknown
	idOther                   // a code beyond maxAnswers
)

// maxAnswers bounds the distinct answers, several times as many as the API has
// codes.
const maxAnswers = 64

// maxViolations bounds how many are kept in full; the report gives the total.
const maxViolations = 1000

// tally counts answers by kind. Safe for concurrent use: counting is atomic, and
// mu guards the rare events.
type tally struct {
	names   atomic.Pointer[[]string] // by id; replaced, never changed
	answers [maxAnswers]atomic.Int64

	mu         sync.Mutex
	troubles   map[string]int64
	violations []Violation
}

// Violation is a promise to a shopper that the server broke.
type Violation struct {
	OrderNo string `json:"order_no"`
	Detail  string `json:"detail"`
}

func newTally() *tally {
	t := &tally{troubles: map[string]int64{}}
	t.names.Store(&[]string{"", answerQueued, answerNone, answerUnknown, "other"})
	return t
}

// idOf returns the id of a code.
func (t *tally) idOf(code []byte) answerID {
	for i, name := range *t.names.Load() {
		if name == string(code) {
			return answerID(i)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	names := *t.names.Load()
	at := slices.Index(names, string(code))
	switch {
	case at >= 0:
	case len(names) == maxAnswers:
		return idOther
	default:
		at = len(names)
		names = append(slices.Clip(names), string(code))
		t.names.Store(&names)
	}
	return answerID(at)
}

func (t *tally) id(code string) answerID { return t.idOf([]byte(code)) }

func (t *tally) name(id answerID) string { return (*t.names.Load())[id] }

// mayBeInLine reports whether an attempt's outcome is left to the order's status.
func (id answerID) mayBeInLine() bool { return id == idQueued || id == idNone || id == idUnknown }

// isRefusal reports whether an answer refused a rush.
func (t *tally) isRefusal(id answerID) bool {
	return id >= idOther && !strings.HasPrefix(t.name(id), pathRefused)
}

func (t *tally) add(answer answerID) { t.answers[answer].Add(1) }

// counts returns the answers by code.
func (t *tally) counts() map[string]int64 {
	m := map[string]int64{}
	for id := range t.answers {
		if n := t.answers[id].Load(); n > 0 {
			m[t.name(answerID(id))] = n
		}
	}
	return m
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
