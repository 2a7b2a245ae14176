package modeltest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"stampede/platform/workshop/modeltest"
)

func TestPermutationsComeOnce(t *testing.T) {
	t.Setenv("STAMPEDE_TEST_LONG", "1")
	want := [][]int{{1, 1, 2}, {1, 2, 1}, {2, 1, 1}}
	if diff := cmp.Diff(want, modeltest.Permutations([]int{2, 1, 1}, 1)); diff != "" {
		t.Error(diff)
	}
	six := []string{"a", "b", "c", "d", "e", "f"}
	if n := len(modeltest.Permutations(six, 60)); n != 720 {
		t.Errorf("%d orders of six events, want 720", n)
	}
	t.Setenv("STAMPEDE_TEST_LONG", "")
	sample := modeltest.Permutations(six, 60)
	if len(sample) != 60 {
		t.Errorf("%d orders in the sample, want 60", len(sample))
	}
	if diff := cmp.Diff(sample, modeltest.Permutations(six, 60)); diff != "" {
		t.Errorf("the sample changes from run to run: %s", diff)
	}
}
