package loadgen

import (
	"sync"
	"time"

	"stampede/platform/ids"
)

// shopper is one user's attempt.
type shopper struct {
	user  int64
	token string
	path  string
	no    ids.ID
	pays  bool

	sent     time.Time // the first send of the attempt
	answered time.Time
	answer   string // "queued", a refusal's code or "no-answer"
	position int64  // the last place in line that was told; untold before

	mu      sync.Mutex
	visible time.Time // when a poll or a push first told of the order
	pushed  time.Time // when a push first told of the order
	paid    time.Time
	status  string // the last status heard
	news    chan struct{}
}

// heard notes an order's status from a poll or a push and wakes the follower.
func (s *shopper) heard(status string, push bool, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if status == "queued" {
		return
	}
	if s.visible.IsZero() {
		s.visible = at
	}
	if push && s.pushed.IsZero() {
		s.pushed = at
	}
	if status == "paid" && s.paid.IsZero() {
		s.paid = at
	}
	// A late poll must not overwrite what a push already told: pending_payment
	// is the first status an order has, anything else comes after it.
	if s.status == "" || status != statusPending {
		s.status = status
	}
	select {
	case s.news <- struct{}{}:
	default: // one wake-up is enough
	}
}

func (s *shopper) state() (status string, visible time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status, s.visible
}

// untold is above every place in line, so that the first one told is no rise.
const untold = int64(1) << 62

const (
	statusPending = "pending_payment"
	statusPaid    = "paid"
	statusRefused = "refused"
	statusClosed  = "closed"
	answerQueued  = "queued"
	// pathRefused stands before the code that refused a path.
	pathRefused = "path: "
	// answerNone is written when no answer came: the number may be in line.
	answerNone = "no-answer"
)

// paysAt spreads the paying winners evenly over all of them: the i-th, from 0,
// pays when the running sum of the share passes a whole.
func paysAt(i int, share float64) bool {
	return int(float64(i+1)*share) > int(float64(i)*share)
}
