package failpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"stampede/platform/base/failpoint"
	"stampede/platform/workshop/require"
)

// Points of these tests.
var (
	answering = failpoint.New("test-answering", "An answer is about to be written.")
	decided   = failpoint.NewErr("test-decided", "A decision is made.")
	stored    = failpoint.NewErr("test-stored", "A row is stored.")
	counted   = failpoint.NewErr("test-counted", "A row is counted.")
)

// childEnv makes the test binary a process that reaches a point five times.
const childEnv = "STAMPEDE_FAILPOINT_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	if err := failpoint.Arm(os.Getenv(failpoint.Variable), os.Stderr); err != nil {
		os.Exit(2)
	}
	for range 5 {
		_, _ = os.Stdout.WriteString("hit\n")
		answering.Pass()
	}
	os.Exit(0)
}

// arm arms points until the test ends. The points are the process's, so the tests
// that use it do not run in parallel.
func arm(t *testing.T, spec string) *bytes.Buffer {
	t.Helper()
	t.Cleanup(failpoint.Disarm)
	told := new(bytes.Buffer)
	require.NoError(t, failpoint.Arm(spec, told))
	return told
}

func TestKillIsSigkillAtTheNthHit(t *testing.T) {
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childEnv+"=1", failpoint.Variable+"=test-answering=kill@3")
	var errs bytes.Buffer
	child.Stderr = &errs
	out, err := child.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child ended with %v, want SIGKILL", err)
	}
	require.Equal(t, "hits", strings.Count(string(out), "hit"), 3)
	for _, want := range []string{"WARNING: STAMPEDE_FAILPOINTS is set", "fail point test-answering reached, hit 3: kill"} {
		require.Contains(t, "output", errs.String(), want)
	}
}

func TestErrorComesOnce(t *testing.T) {
	told := arm(t, " test-stored=error@2 , test-decided=error")
	for hit, want := range []bool{false, true, false} {
		if err := stored.Err(); (err != nil) != want || err != nil && !errors.Is(err, failpoint.ErrInjected) {
			t.Errorf("hit %d: %v", hit+1, err)
		}
	}
	require.Contains(t, "error at the first hit", fmt.Sprint(decided.Err()), "test-decided")
	require.NoError(t, counted.Err())
	require.Equal(t, "warnings", strings.Count(told.String(), "WARNING"), 2)
}

func TestPauseDelaysTheHit(t *testing.T) {
	arm(t, "test-answering=pause:30ms")
	began := time.Now()
	answering.Pass()
	if took := time.Since(began); took < 30*time.Millisecond {
		t.Errorf("the hit took %s", took)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for spec, want := range map[string]string{
		"test-decided":                         "is not of the form NAME=kill@3",
		"after-dinner=kill":                    `no fail point "after-dinner"; the points are test-answering, test-counted,`,
		"test-decided=explode":                 "the actions are kill, error and pause:DURATION",
		"test-decided=kill@0":                  "the hit to act on, 1 to",
		"test-decided=kill@x":                  "the hit to act on, 1 to",
		"test-decided=kill@2000000":            "the hit to act on, 1 to",
		"test-decided=pause":                   "the actions are",
		"test-decided=pause:2":                 "a pause is a duration such as 500ms",
		"test-decided=pause:2h":                "at most 1m0s",
		"test-decided=pause:-1s":               "a pause is a duration",
		"test-answering=error":                 "test-answering cannot return an error",
		"test-decided=kill,test-decided=error": "test-decided is listed twice",
		"test-decided=kill,":                   "is not of the form",
	} {
		err := failpoint.Arm(spec, io.Discard)
		require.Contains(t, spec, fmt.Sprint(err), want)
		require.Equal(t, err.Error()+" names the variable", strings.HasPrefix(err.Error(), failpoint.Variable+": "), true)
		require.NoError(t, decided.Err()) // it is not armed
	}
	require.NoError(t, failpoint.Arm("", io.Discard))
}

func TestNewRefusesDuplicateNames(t *testing.T) {
	for _, name := range []string{"test-stored", "a=b", "a,b", "a b"} {
		require.Panics(t, name, func() { failpoint.New(name, "It is refused.") })
	}
}

// An unarmed point, as in production, costs only a load.
func TestOffAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		answering.Pass()
		_ = decided.Err()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
