package loadgen

import (
	"sync"
	"time"

	"stampede/platform/base/app"
)

// trail records what one shopper learns after the attempt; shoppers in line and
// those with a socket have one. Its mutex synchronizes the follower and the
// socket's goroutine. Times count from the crowd's base; 0 means not yet.
type trail struct {
	shopper int           // place in the crowd
	wake    chan struct{} // gets a push's news; full while the follower has not looked

	// Owned by the follower:
	pays   bool
	eager  bool // polled as soon as sensible, to measure
	silent bool // the last poll had no answer or a server error

	mu       sync.Mutex
	position int64 // the last known place in line; untold before that
	visible  time.Duration
	pushed   time.Duration
	status   string // the last known status
	told     string // the last one that was pushed
}

func newTrail(i int) *trail {
	return &trail{shopper: i, wake: make(chan struct{}, 1), position: untold}
}

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
	// A late poll must not overwrite a newer push: pending_payment is the first
	// status of an order, all others come later.
	if t.status == "" || status != statusPending {
		t.status = status
	}
	if !push {
		return
	}
	t.told = status
	if t.pushed == 0 {
		t.pushed = at
	}
	app.Kick(t.wake)
}

// place records a place in line and reports whether it increased.
func (t *trail) place(position int64) (rose bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rose = position > t.position
	t.position = position
	return rose
}

// leave records that the server does not know the number.
func (t *trail) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status = gone
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
	// gone is the internal status of a number that is not in line; no server sends it.
	gone = "gone"
)

// paysAt spreads the paying winners evenly over all of them: the i-th, from 0,
// pays when the running sum of the share passes a whole.
func paysAt(i int, share float64) bool {
	return int(float64(i+1)*share) > int(float64(i)*share)
}
