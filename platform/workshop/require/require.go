// Package require ends a test whose step has failed.
package require

import (
	"errors"
	"fmt"

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
