package failpoint_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"stampede/platform/failpoint"
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
		failpoint.Before202.Pass()
	}
	os.Exit(0)
}

// arm arms points until the test ends. The points are the process's, so the tests
// that use it do not run in parallel.
func arm(t *testing.T, spec string) *bytes.Buffer {
	t.Helper()
	t.Cleanup(failpoint.Disarm)
	told := new(bytes.Buffer)
	if err := failpoint.Arm(spec, told); err != nil {
		t.Fatal(err)
	}
	return told
}

func TestKillIsSigkillAtTheNthHit(t *testing.T) {
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childEnv+"=1", failpoint.Variable+"=before-202=kill@3")
	var errs bytes.Buffer
	child.Stderr = &errs
	out, err := child.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child ended with %v, want SIGKILL", err)
	}
	if got := strings.Count(string(out), "hit"); got != 3 {
		t.Errorf("it died at hit %d, want 3", got)
	}
	for _, want := range []string{"WARNING: STAMPEDE_FAILPOINTS is set", "fail point before-202 reached, hit 3: kill"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("it printed no %q:\n%s", want, errs.String())
		}
	}
}

func TestErrorComesOnce(t *testing.T) {
	told := arm(t, " load-fenced=error@2 , after-lua=error")
	for hit, want := range []bool{false, true, false} {
		if err := failpoint.LoadFenced.Err(); (err != nil) != want || err != nil && !errors.Is(err, failpoint.ErrInjected) {
			t.Errorf("hit %d: %v", hit+1, err)
		}
	}
	if err := failpoint.AfterLua.Err(); err == nil || !strings.Contains(err.Error(), "after-lua") {
		t.Errorf("without @n the first hit is meant, and the error names the point: %v", err)
	}
	if err := failpoint.LoadCounted.Err(); err != nil {
		t.Errorf("a point that is not armed: %v", err)
	}
	if got := strings.Count(told.String(), "WARNING"); got != 2 {
		t.Errorf("%d warnings, want one for each point:\n%s", got, told)
	}
}

func TestPauseDelaysTheHit(t *testing.T) {
	arm(t, "before-202=pause:30ms")
	began := time.Now()
	failpoint.Before202.Pass()
	if took := time.Since(began); took < 30*time.Millisecond {
		t.Errorf("it took %s", took)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for spec, want := range map[string]string{
		"after-lua":                      "is not like after-lua=kill@3",
		"after-dinner=kill":              `no fail point "after-dinner"; there are after-lua,`,
		"after-lua=explode":              "the actions are kill, error and pause:DURATION",
		"after-lua=kill@0":               "which hit is meant, 1 to",
		"after-lua=kill@x":               "which hit is meant, 1 to",
		"after-lua=kill@2000000":         "which hit is meant, 1 to",
		"after-lua=pause":                "the actions are",
		"after-lua=pause:2":              "a pause is a duration such as 500ms",
		"after-lua=pause:2h":             "at most 1m0s",
		"after-lua=pause:-1s":            "a pause is a duration",
		"before-202=error":               "nothing can fail any more at before-202",
		"after-lua=kill,after-lua=error": "after-lua is named twice",
		"after-lua=kill,":                "is not like",
	} {
		err := failpoint.Arm(spec, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), failpoint.Variable+": ") {
			t.Errorf("%q: %v, want %q", spec, err, want)
		}
		if failpoint.AfterLua.Err() != nil {
			t.Errorf("%q armed something all the same", spec)
		}
	}
	if err := failpoint.Arm("", io.Discard); err != nil {
		t.Errorf("nothing to arm: %v", err)
	}
}

// Off is what production pays: nothing but a load.
func TestOffAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		failpoint.Before202.Pass()
		_ = failpoint.AfterLua.Err()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkOff(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		failpoint.Before202.Pass()
	}
}
