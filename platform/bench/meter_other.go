//go:build !linux

package bench

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// processes lists all that are running, as ps tells it.
func processes() []process {
	out, err := exec.Command("ps", "-axo", "pid=,ppid=,time=,comm=").Output() //nolint:noctx // it ends by itself at once
	if err != nil {
		return nil // the report then says nothing about them
	}
	var list []process
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		pid, err1 := strconv.Atoi(fields[0])
		parent, err2 := strconv.Atoi(fields[1])
		cpu, ok := parseClock(fields[2])
		if err1 == nil && err2 == nil && ok {
			list = append(list, process{pid: pid, parent: parent, name: filepath.Base(strings.Join(fields[3:], " ")), cpu: cpu})
		}
	}
	return list
}

// parseClock reads [hours:]minutes:seconds[.hundredths].
func parseClock(text string) (time.Duration, bool) {
	var d time.Duration
	for part := range strings.SplitSeq(text, ":") {
		v, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return 0, false
		}
		d = d*60 + time.Duration(v*float64(time.Second))
	}
	return d, true
}

// residentKiB is a process's memory in RAM, 0 where it has ended. What it was at
// most is not known here.
func residentKiB(pid int) (now, peak int64) {
	out, err := exec.Command("ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output() //nolint:gosec,noctx // a number; it ends by itself
	if err != nil {
		return 0, 0
	}
	kib, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		return 0, 0
	}
	return kib, kib
}
