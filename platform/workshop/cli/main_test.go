package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"stampede/platform/workshop/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestInterruptedMatchesOnlyErrorsOfTheInterrupt(t *testing.T) {
	t.Parallel()
	cut := fmt.Errorf("start the server: %w", context.Canceled)
	fault := errors.New("stop the server: it is still there")
	for _, c := range []struct {
		err  error
		want bool
	}{
		{context.Canceled, true},
		{cut, true},
		{errors.Join(cut, nil), true},
		{errors.Join(errors.Join(cut, cut), cut), true},
		{fault, false},
		{errors.Join(cut, fault), false},
		{errors.Join(errors.Join(cut, fault), cut), false},
		{fmt.Errorf("start the server: %w", context.DeadlineExceeded), false},
	} {
		if got := interrupted(c.err); got != c.want {
			t.Errorf("interrupted(%v) = %v", c.err, got)
		}
	}
}
