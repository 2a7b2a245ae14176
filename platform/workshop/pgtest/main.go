package pgtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Main is the body of a TestMain: it runs the tests, then runs the checks (goleak, for example) if the tests passed, and ends
// the process.
//
//	func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }
func Main(m *testing.M, checks ...func() error) {
	code := m.Run()
	closeIdle()
	for _, check := range checks {
		if code != 0 {
			break
		}
		if err := check(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code) //nolint:forbidigo // this is the whole TestMain
}

// MainWaiting is Main for a package whose tests mostly wait, for Postgres, a
// relay or a tick: eight run in parallel instead of one per processor.
func MainWaiting(m *testing.M, checks ...func() error) {
	Parallel(8)
	Main(m, checks...)
}

// Parallel sets how many tests run in parallel, unless -parallel or -cpu is set.
func Parallel(n int) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" || f.Name == "test.cpu" })
	if !chosen {
		if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
			panic(err)
		}
	}
}

// RapidChecks sets how many cases the package's rapid tests run: fewer than
// rapid's hundred, because each makes many round trips. Call it in TestMain,
// before flags are parsed, so that -rapid.checks can override it.
func RapidChecks(n int) {
	if err := flag.Set("rapid.checks", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}

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

// Work runs a worker, which must not fail, until the returned function is called or the test ends.
func Work(t testing.TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("worker: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}
