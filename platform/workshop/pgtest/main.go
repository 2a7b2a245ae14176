package pgtest

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
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
// relay or a tick: eight run in parallel instead of one per processor, unless
// -parallel or -cpu is set.
func MainWaiting(m *testing.M, checks ...func() error) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" || f.Name == "test.cpu" })
	if !chosen {
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
	}
	Main(m, checks...)
}

// RapidChecks sets how many cases the package's rapid tests run: fewer than
// rapid's hundred, because each makes many round trips. Call it in TestMain,
// before flags are parsed, so that -rapid.checks can override it.
func RapidChecks(n int) {
	if err := flag.Set("rapid.checks", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}
