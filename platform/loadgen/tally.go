package loadgen

import (
	"sync"
	"time"
)

// tally counts answers by kind and by second. Safe for concurrent use; its one
// mutex is taken once per attempt, far below what an HTTP request costs.
type tally struct {
	mu         sync.Mutex
	answers    map[string]int64
	seconds    []map[string]int64
	troubles   map[string]int64
	violations []Violation
}

// Violation is a promise that the server broke towards a shopper.
type Violation struct {
	OrderNo string `json:"order_no"`
	Detail  string `json:"detail"`
}

// maxSeconds bounds the chart; later answers count into its last second.
const maxSeconds = 3600

// maxViolations bounds what is kept in full; the report says how many there were.
const maxViolations = 1000

func newTally() *tally {
	return &tally{answers: map[string]int64{}, troubles: map[string]int64{}}
}

func (t *tally) add(answer string, at time.Duration) {
	second := min(max(int(at/time.Second), 0), maxSeconds-1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answers[answer]++
	for len(t.seconds) <= second {
		t.seconds = append(t.seconds, map[string]int64{})
	}
	t.seconds[second][answer]++
}

// trouble notes something that kept a winner from going on without being a
// broken promise, such as a payment that came too late.
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
