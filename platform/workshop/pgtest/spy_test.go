package pgtest_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
)

// spy is a test that is expected to fail.
type spy struct {
	testing.TB
	text     string
	cleanups []func()
}

func (s *spy) Helper()           {}
func (s *spy) Cleanup(fn func()) { s.cleanups = append(s.cleanups, fn) }

func (s *spy) Errorf(format string, args ...any) { s.text = fmt.Sprintf(format, args...) }

// Fatalf ends the goroutine, as that of a real test does.
func (s *spy) Fatalf(format string, args ...any) {
	s.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (s *spy) Fatal(args ...any) {
	s.text = fmt.Sprint(args...)
	runtime.Goexit()
}

// finish runs the cleanups, last first.
func (s *spy) finish() {
	for _, cleanup := range slices.Backward(s.cleanups) {
		cleanup()
	}
}
