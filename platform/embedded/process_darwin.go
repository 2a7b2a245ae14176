package embedded

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// process is what the system knows about a running process.
type process struct {
	// start identifies the process among all that ever had its pid: the date and second of its start.
	start string
	// args is the command line, its arguments separated by single spaces.
	args string
	uid  int
}

// psTimeout bounds one call of ps, which takes a few milliseconds.
const psTimeout = 10 * time.Second

// inspect describes the running process pid. ok is false if there is none, or if it has ended and only waits to be
// collected by its parent.
func inspect(pid int) (p process, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), psTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/ps", "-ww", "-p", strconv.Itoa(pid), "-o", "stat=,uid=,lstart=,command=")
	cmd.Env = []string{"LC_ALL=C"}
	out, err := cmd.Output()
	if err != nil {
		return process{}, false // ps exits with 1 when there is no such process
	}
	// lstart has five words in the C locale: "Mon Jan  2 15:04:05 2006".
	const state, uid, start, command = 0, 1, 2, 7
	fields := strings.Fields(string(out))
	if len(fields) <= command || strings.HasPrefix(fields[state], "Z") {
		return process{}, false
	}
	id, err := strconv.Atoi(fields[uid])
	if err != nil {
		return process{}, false
	}
	// The command line is cut from the output itself: joining the fields would squeeze spaces in a path.
	rest := string(out)
	for _, field := range fields[:command] {
		rest = rest[strings.Index(rest, field)+len(field):]
	}
	return process{
		start: strings.Join(fields[start:command], " "),
		args:  strings.TrimSpace(rest),
		uid:   id,
	}, true
}
