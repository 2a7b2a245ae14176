package cli

import (
	"testing"

	"stampede/platform/workshop/require"
)

// TestBenchStagesOfInstances: a stage that needs a single server is left out, and refused where it is named, before
// anything is measured.
func TestBenchStagesOfInstances(t *testing.T) {
	t.Parallel()
	for instances, want := range map[int]int{0: 5, 4: 4} {
		chosen, err := (&Bench{Instances: instances}).choose()
		require.NoError(t, err)
		require.Equal(t, "stages", len(chosen), want)
	}
	named := &Bench{Instances: 4, Stages: []string{"whole", "reminders"}}
	require.Equal(t, "the refusal", named.Validate().Error(), "the stage reminders restarts its server, of which there is one: leave out either it or --instances")
	named.Instances = 0
	require.NoError(t, named.Validate())
}
