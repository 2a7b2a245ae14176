package pgtest

import (
	"testing"
	"time"
)

// pollEvery is short compared with what tests wait for (milliseconds to
// seconds) and long compared with a condition's cost.
const pollEvery = 5 * time.Millisecond

// Eventually polls cond, in the test's goroutine, until it is true. If that
// does not happen within the given time, the test fails and ends; what
// completes the sentence "did not happen within 2s: …".
func Eventually(t testing.TB, within time.Duration, cond func() bool, what string) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline.C:
			if cond() { // the machine may have been busy for the whole time
				return
			}
			t.Fatalf("did not happen within %v: %s", within, what)
		case <-tick.C:
		}
	}
}
