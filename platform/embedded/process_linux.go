package embedded

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// process is what the system knows about a running process.
type process struct {
	// start identifies the process among all that ever had its pid: the boot's id and the clock ticks since then.
	start string
	// args is the command line, its arguments separated by single spaces.
	args string
	uid  int
}

// inspect describes the running process pid. ok is false if there is none, or if it has ended and only waits to be
// collected by its parent.
func inspect(pid int) (p process, ok bool) {
	dir := fmt.Sprintf("/proc/%d", pid)
	raw, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return process{}, false
	}
	// The second field is the program's name in parentheses and may hold anything, so count from the last ")". The
	// third field is the state, the 22nd the start time.
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	const state, startTime = 0, 22 - 3
	if len(fields) <= startTime || fields[state] == "Z" || fields[state] == "X" {
		return process{}, false
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return process{}, false
	}
	args, err := os.ReadFile(dir + "/cmdline")
	if err != nil {
		return process{}, false
	}
	info, err := os.Stat(dir)
	if err != nil {
		return process{}, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return process{}, false
	}
	return process{
		start: strings.TrimSpace(string(boot)) + " " + fields[startTime],
		args:  strings.TrimSpace(string(bytes.ReplaceAll(args, []byte{0}, []byte{' '}))),
		uid:   int(stat.Uid),
	}, true
}
