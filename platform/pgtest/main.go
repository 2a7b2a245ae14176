package pgtest

import (
	"fmt"
	"os"
	"testing"
)

// Main is the body of a TestMain: it runs the tests, gives the servers back, then runs the checks (goleak, for example)
// if the tests passed, and ends the process.
//
//	func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }
func Main(m *testing.M, checks ...func() error) {
	code := m.Run()
	shared.leave()
	for _, check := range checks {
		if code != 0 {
			break
		}
		if err := check(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code) //nolint:forbidigo // it is all of a TestMain
}
