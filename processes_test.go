package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// running is one process of this machine.
type running struct {
	parent  int
	command string // empty for a zombie
}

// processes lists running processes. On Linux it reads /proc, because a bare
// system has neither ps nor pgrep.
func processes(t testing.TB) map[int]running {
	t.Helper()
	all := map[int]running{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		line, readErr := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if err != nil || readErr != nil {
			continue // it has exited meanwhile
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		// The name is in parentheses and may contain anything; state and parent follow.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		parent, _ := strconv.Atoi(string(fields[1]))
		all[pid] = running{parent, strings.TrimSpace(string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))}
	}
	if len(all) > 0 {
		return all
	}
	out, err := exec.Command("ps", "-axo", "pid=,ppid=,command=").Output()
	if err != nil {
		t.Fatalf("neither /proc nor ps: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		pid, _ := strconv.Atoi(fields[0])
		parent, _ := strconv.Atoi(fields[1])
		all[pid] = running{parent, strings.Join(fields[2:], " ")}
	}
	return all
}

// childrenOf lists processes with a folder's name in their command line.
func childrenOf(t testing.TB, folder string) string {
	t.Helper()
	return listed(t, func(r running) bool { return strings.Contains(r.command, folder) })
}

// childrenBelow lists a process's own children.
func childrenBelow(t testing.TB, pid int) string {
	t.Helper()
	return listed(t, func(r running) bool { return r.parent == pid })
}

func listed(t testing.TB, which func(running) bool) string {
	t.Helper()
	var b strings.Builder
	for pid, r := range processes(t) {
		if r.command != "" && which(r) {
			fmt.Fprintln(&b, pid, r.command)
		}
	}
	return b.String()
}
