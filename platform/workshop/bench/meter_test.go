package bench

import (
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestUsageIncludesGrandchildren burns processor time in a child and in its child.
func TestUsageIncludesGrandchildren(t *testing.T) {
	t.Parallel()
	// The context would end only the first of the two; the process group contains both.
	cmd := exec.Command("sh", "-c", "(while :; do :; done) & while :; do :; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // the error only says that it was killed
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
