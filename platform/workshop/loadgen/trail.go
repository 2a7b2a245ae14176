package loadgen

import (
	"sync"
	"time"
)

// trail records what one shopper learns after the attempt; shoppers in line and
// those with a socket have one. Its mutex synchronizes the poller that follows
// it and the socket's goroutine. Times count from the crowd's base; 0 means not
// yet.
type trail struct {
	shopper int // place in the crowd

	// Owned by the poller:
	pays   bool
	paying bool // the payment is in progress
	eager  bool // polled as soon as sensible, to measure
	paid   bool // the payment was made; its result is awaited
	unpaid bool // the payment failed
	silent bool // the last poll had no answer or a server error
	token  string
	pause  time.Duration
	due    time.Time

	mu       sync.Mutex
	position int64 // the last known place in line; untold before that
	visible  time.Duration
	pushed   time.Duration
	status   string      // the last known status
	told     string      // the last one that was pushed
	wake     chan *trail // the poller's; nil while none follows
}

func newTrail(i int) *trail { return &trail{shopper: i, position: untold} }

// heard records an order's status from a poll or a push and wakes the follower.
func (t *trail) heard(status string, push bool, at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if status == answerQueued {
		return
	}
	if t.visible == 0 {
		t.visible = at
	}
	if push {
		t.told = status
	}
	if push && t.pushed == 0 {
		t.pushed = at
	}
	// A late poll must not overwrite a newer push: pending_payment is the first
	// status of an order, all others come later.
	if t.status == "" || status != statusPending {
		t.status = status
	}
	if push && t.wake != nil {
		select {
		case t.wake <- t:
		default: // the poller is busy and polls anyway
		}
	}
}

// place records a place in line and reports whether it increased.
func (t *trail) place(position int64) (rose bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rose = position > t.position
	t.position = position
	return rose
}

func (t *trail) state() (status string, visible, pushed time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status, t.visible, t.pushed
}

// lastPush is the status that was pushed last, "" without one.
func (t *trail) lastPush() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.told
}

// untold is above every place in line, so that the first place never counts as
// an increase.
const untold = int64(1) << 62

const (
	statusPending = "pending_payment"
	answerQueued  = "queued"
	// pathRefused is the prefix of the code that refused a path.
	pathRefused = "path: "
	// answerNone means that there was no answer: the number may be in line.
	answerNone = "no-answer"
	// answerUnknown is the server's code for an attempt that may be in line.
	answerUnknown = "unknown"
	// answerFenced is the server's code for an attempt that it did not take because
	// the item is being loaded.
	answerFenced = "fenced"
	// answerAlreadyBought is the server's code for an attempt of a user who holds
	// units under the number that the answer names.
	answerAlreadyBought = "already-bought"
)

// paysAt spreads the paying winners evenly over all of them: the i-th, from 0,
// pays when the running sum of the share passes a whole.
func paysAt(i int, share float64) bool {
	return int(float64(i+1)*share) > int(float64(i)*share)
}
