package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"stampede/platform/pgtest"
)

// TestAKilledBenchLeavesNothing ends `stampede bench` in each way in mid-work,
// when its stores and its server are up: neither a process nor a file is left,
// also when nobody was there to put them away.
func TestAKilledBenchLeavesNothing(t *testing.T) {
	t.Parallel()
	name, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			temp := filepath.Dir(dataDir(t)) // where bench makes its folder
			p := &process{out: newConsole(), ended: make(chan struct{})}
			p.cmd = exec.Command(name, "bench", "--stages=refusal")
			p.cmd.Env = append(os.Environ(), "TMPDIR="+temp)
			p.start(t)
			// The floor's child starts when the server has answered.
			pgtest.Eventually(t, time.Minute, func() bool { return strings.Contains(childrenBelow(t, p.cmd.Process.Pid), "bench-part bare") }, "bench to be at work")
			before := childrenOf(t, temp)
			for _, want := range []string{"postgres", "redis", " serve "} {
				if !strings.Contains(before, want) {
					t.Fatalf("there is no %s to leave behind:\n%s", want, before)
				}
			}
			code := p.end(t, sig, time.Minute)
			if want := map[syscall.Signal]int{syscall.SIGKILL: -1, syscall.SIGTERM: exitInterrupted}[sig]; code != want {
				t.Errorf("exit %d, want %d", code, want)
			}
			left := func() string {
				files, err := filepath.Glob(filepath.Join(temp, "*"))
				return fmt.Sprint(childrenOf(t, temp), files, err)
			}
			pgtest.Eventually(t, time.Minute, func() bool { return left() == fmt.Sprint("", []string(nil), nil) }, "no process and no file")
		})
	}
}

// exitInterrupted is what a shell makes of SIGINT.
const exitInterrupted = 130
