package loadgen

import (
	"sync"
	"time"
)

// trail is what one shopper is told after the attempt: of those who are in
// line, and of those who listen at a socket. The poller that follows it and the
// socket's goroutine meet at its mutex. Times count from the crowd's base; 0 is
// not yet.
type trail struct {
	shopper int // place in the crowd

	// Of the poller alone:
	pays   bool
	paying bool // the payment is under way
	eager  bool // polled as soon as sensible, to measure
	paid   bool // the payment was made; its end is awaited
	unpaid bool // it could not be made
	silent bool // the last question had no answer, or one about the server's own trouble
	token  string
	pause  time.Duration
	due    time.Time

	mu       sync.Mutex
	position int64 // the last place in line that was told; untold before
	visible  time.Duration
	pushed   time.Duration
	status   string      // the last status heard
	wake     chan *trail // the poller's; nil while none follows
}

func newTrail(i int) *trail { return &trail{shopper: i, position: untold} }

// heard notes an order's status from a poll or a push and wakes the follower.
func (t *trail) heard(status string, push bool, at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if status == answerQueued {
		return
	}
	if t.visible == 0 {
		t.visible = at
	}
	if push && t.pushed == 0 {
		t.pushed = at
	}
	// A late poll must not overwrite what a push already told: pending_payment
	// is the first status an order has, anything else comes after it.
	if t.status == "" || status != statusPending {
		t.status = status
	}
	if push && t.wake != nil {
		select {
		case t.wake <- t:
		default: // the poller is busy and comes by itself
		}
	}
}

// place notes a place in line and reports whether it rose.
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

// untold is above every place in line, so that the first one told is no rise.
const untold = int64(1) << 62

const (
	statusPending = "pending_payment"
	answerQueued  = "queued"
	// pathRefused stands before the code that refused a path.
	pathRefused = "path: "
	// answerNone is written when no answer came: the number may be in line.
	answerNone = "no-answer"
	// answerUnknown is the server's own word for an attempt that may be in line.
	answerUnknown = "unknown"
)

// paysAt spreads the paying winners evenly over all of them: the i-th, from 0,
// pays when the running sum of the share passes a whole.
func paysAt(i int, share float64) bool {
	return int(float64(i+1)*share) > int(float64(i)*share)
}
