// Package require ends a test whose step has failed.
package require

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// T is a test: a *testing.T, a *testing.B or a *rapid.T.
type T interface {
	Helper()
	Fatal(args ...any)
}

// NoError ends the test with err, unless it is nil.
func NoError(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Equal ends the test unless got is want; what names it.
func Equal[V any](t T, what string, got, want V) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(what + " (-want +got):\n" + diff)
	}
}

// ErrorIs ends the test unless err is or wraps want.
func ErrorIs(t T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatal(fmt.Sprintf("error %v, want %v", err, want))
	}
}

// Contains ends the test unless got contains all parts; what names it. Of an error, got is fmt.Sprint(err).
func Contains(t T, what, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Fatal(fmt.Sprintf("%s lacks %q:\n%s", what, part, got))
		}
	}
}

// Panics ends the test unless call panics; what names the call.
func Panics(t T, what string, call func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Fatal(what + " does not panic")
		}
	}()
	call()
}
