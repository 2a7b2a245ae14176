package permute_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"stampede/platform/permute"
)

func TestEveryOrderComesOnce(t *testing.T) {
	t.Parallel()
	want := [][]int{{1, 1, 2}, {1, 2, 1}, {2, 1, 1}}
	if diff := cmp.Diff(want, permute.All([]int{2, 1, 1})); diff != "" {
		t.Error(diff)
	}
	if n := len(permute.All([]string{"a", "b", "c", "d", "e", "f"})); n != 720 {
		t.Errorf("%d orders of six events, want 720", n)
	}
}
