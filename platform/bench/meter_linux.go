package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of the times in /proc/<pid>/stat; Linux shows them in
// hundredths of a second whatever the kernel counts in.
const tick = 10 * time.Millisecond

// processes lists all that are running.
func processes() []process {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil // the pattern is sound
	}
	list := make([]process, 0, len(dirs))
	for _, dir := range dirs {
		raw, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue // it has ended meanwhile
		}
		if p, ok := parseStat(raw); ok {
			list = append(list, p)
		}
	}
	return list
}

// parseStat reads a line of /proc/<pid>/stat. The second field is the program's
// name in parentheses and may hold anything, so the others are counted from the
// last ")".
func parseStat(raw []byte) (process, bool) {
	const state, parent, userTime, childrenSystemTime = 0, 1, 11, 14
	open, end := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	if open < 0 || end < open {
		return process{}, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw[:open])))
	fields := strings.Fields(string(raw[end+1:]))
	if err != nil || len(fields) <= childrenSystemTime || fields[state] == "Z" {
		return process{}, false
	}
	p := process{pid: pid, name: string(raw[open+1 : end])}
	if p.parent, err = strconv.Atoi(fields[parent]); err != nil {
		return process{}, false
	}
	for _, field := range fields[userTime : childrenSystemTime+1] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return process{}, false
		}
		p.cpu += time.Duration(ticks) * tick
	}
	return p, true
}

// residentKiB is a process's memory in RAM, and the most it ever was; 0 where it
// has ended.
func residentKiB(pid int) (now, peak int64) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(raw)) {
		name, rest, _ := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if len(fields) != 2 {
			continue
		}
		kib, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "VmRSS":
			now = kib
		case "VmHWM":
			peak = kib
		}
	}
	return now, peak
}
