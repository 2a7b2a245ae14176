package pgtest

import (
	"testing"
	"time"
)

// A condition is polled again after pollEvery, which is short compared with
// what tests wait for (milliseconds to seconds), or after four times as long as
// it took: listing the machine's processes, for example, then takes at most a
// fifth of one processor from what the test waits for. A condition that itself
// waits is polled after at most longestPause.
const (
	pollEvery    = 5 * time.Millisecond
	longestPause = 100 * time.Millisecond
)

// Eventually polls cond, in the test's goroutine, until it is true. If that
// does not happen within the given time, the test fails and ends; what
// completes the sentence "did not happen within 2s: …".
func Eventually(t testing.TB, within time.Duration, cond func() bool, what string) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	pause := time.NewTimer(pollEvery)
	defer pause.Stop()
	for began := time.Now(); !cond(); began = time.Now() {
		pause.Reset(min(max(pollEvery, 4*time.Since(began)), longestPause))
		select {
		case <-deadline.C:
			if cond() { // the machine may have been busy for the whole time
				return
			}
			t.Fatalf("did not happen within %v: %s", within, what)
		case <-pause.C:
		}
	}
}
