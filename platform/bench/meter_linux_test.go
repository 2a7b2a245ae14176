package bench

import (
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func TestStatIsReadWhateverAProgramIsCalled(t *testing.T) {
	t.Parallel()
	const line = "42 (a) b (c)) S 7 42 42 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 1 0 99 1 1"
	p, ok := parseStat([]byte(line))
	if want := (process{pid: 42, parent: 7, name: "a) b (c)", cpu: 2500 * time.Millisecond}); !ok || p != want {
		t.Errorf("read %+v, %v; want %+v", p, ok, want)
	}
	for _, bad := range []string{"", "42", "42 (x", "42 (x) Z 7 42 42 0 -1 4194560 1 2 3 4 150 50 30 20 20", "42 (x) S 7 1", "x (x) S 7 42 42 0 -1 4194560 1 2 3 4 150 50 30 20"} {
		if _, ok := parseStat([]byte(bad)); ok {
			t.Errorf("took %q", bad)
		}
	}
}

// TestProcessorTimeGoesToWhoUsedIt spins in a child and in its child.
func TestProcessorTimeGoesToWhoUsedIt(t *testing.T) {
	t.Parallel()
	// The context would end the first of the two only; the group has both.
	cmd := exec.Command("sh", "-c", "(while :; do :; done) & while :; do :; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it only says that it was killed
	})
	rig := noStack()
	rig.names[cmd.Process.Pid] = "spinner"
	before := rig.usage()
	deadline := time.Now().Add(30 * time.Second)
	for rig.usage().since(before)["spinner"] < 200*time.Millisecond {
		if time.Now().After(deadline) {
			t.Fatalf("used %v", rig.usage().since(before))
		}
	}
	if now, peak := residentKiB(cmd.Process.Pid); now <= 0 || peak < now {
		t.Errorf("memory %d KiB, at most %d", now, peak)
	}
}
