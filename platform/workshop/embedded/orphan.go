package embedded

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	psutil "github.com/shirou/gopsutil/v4/process"
)

const (
	// orphanPoll is how often to check whether a process that is not our child
	// has exited; there is no signal for it.
	orphanPoll = 20 * time.Millisecond
	// orphanPatience is how long to wait after each signal to an orphan.
	// Postgres writes a checkpoint on a fast shutdown, which may take some
	// seconds on a slow disk; if it does not finish, the next start replays the
	// log.
	orphanPatience = 15 * time.Second
)

// server describes the process of one of the two servers.
type server struct {
	// name is its name in sentences and, in lower case, that of its log.
	name, file string
	// mark is a path that is in the command line of every process of ours and
	// of no other.
	mark string
	// pidFile is the server's own pid file in the data folder, which it writes
	// before it does anything else.
	pidFile string
	// polite requests a quick and clean shutdown; firm, if set, an unclean one.
	// SIGKILL comes last.
	polite, firm syscall.Signal
}

// postgresServer: SIGINT is Postgres's fast shutdown (SIGTERM would wait for
// clients), SIGQUIT the immediate one, which also ends its backends, as SIGKILL
// would not.
func postgresServer(data string) server {
	return server{
		name: "Postgres", file: "postgres",
		mark:    " -D " + data + "/postgres ",
		pidFile: "postgres/postmaster.pid",
		polite:  syscall.SIGINT, firm: syscall.SIGQUIT,
	}
}

const redisFile = "redis"

// redisServer: Redis's process title contains its socket path.
func redisServer(sockets string) server {
	return server{
		name: "Redis", file: redisFile,
		mark:    sockets + "/" + redisSocket + " ",
		pidFile: "redis/redis.pid",
		polite:  syscall.SIGTERM,
	}
}

// isOurs reports whether a process is this server, on this data and of this
// process's account.
func (s server) isOurs(p process) bool {
	return p.uid == os.Geteuid() && strings.Contains(" "+p.args+" ", s.mark)
}

// orphanOf finds a server's process that an earlier start left running; 0 if
// there is none.
func orphanOf(s server, d *dataDir) (pid int) {
	raw, _ := os.ReadFile(d.at(s.pidFile)) // empty without one
	line, _, _ := strings.Cut(string(raw), "\n")
	pid, _ = strconv.Atoi(strings.TrimSpace(line))
	if p, ok := inspect(pid); ok && pid > 0 && s.isOurs(p) {
		return pid
	}
	return 0
}

// endOrphan stops a server's process that an earlier start left running, if
// there is one.
func endOrphan(ctx context.Context, s server, d *dataDir) (ended bool, err error) {
	pid := orphanOf(s, d)
	if pid == 0 {
		return false, nil
	}
	// On Linux this is a handle on the process itself: after the check below, a
	// signal cannot reach another process that reuses the pid.
	proc, err := os.FindProcess(pid)
	if err != nil {
		return false, nil // it has just exited, as wanted
	}
	defer func() { _ = proc.Release() }() // only frees the handle
	// The command line identifies the process, and not the time of its start: that is counted from the boot, whose time
	// in a container is the present less the uptime, one second or the next by the fraction.
	gone := func() bool {
		p, ok := inspect(pid)
		return !ok || p.args != "" && !s.isOurs(p) // one that is exiting has no command line left
	}
	for _, sig := range []syscall.Signal{s.polite, s.firm, syscall.SIGKILL} {
		if sig == 0 {
			continue
		}
		if gone() {
			return true, nil
		}
		_ = proc.Signal(sig) // an error means that it has exited or may not be signalled; gone tells which
		if waitFor(ctx, gone) {
			return true, nil
		}
	}
	return false, fail(CodeOrphan, ctx.Err(), s.name, pid, d.path, pid)
}

// waitFor polls until done is true, orphanPatience is over, or ctx ends, and
// reports whether done was true.
func waitFor(ctx context.Context, done func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, orphanPatience)
	defer cancel()
	tick := time.NewTicker(orphanPoll)
	defer tick.Stop()
	for {
		if done() {
			return true
		}
		select {
		case <-ctx.Done():
			return done()
		case <-tick.C:
		}
	}
}

// process is the system's information about a running process.
type process struct {
	// args is the command line, its arguments separated by single spaces.
	args string
	uid  int
}

// inspect describes the running process pid. ok is false if there is none, or if it has ended and its parent has not
// collected it yet.
func inspect(pid int) (p process, ok bool) {
	running, err := psutil.NewProcess(int32(pid))
	if err != nil {
		return process{}, false
	}
	status, statusErr := running.Status()
	args, argsErr := running.Cmdline()
	uids, uidsErr := running.Uids()
	if errors.Join(statusErr, argsErr, uidsErr) != nil || slices.Contains(status, psutil.Zombie) || len(uids) == 0 {
		return process{}, false
	}
	return process{args: args, uid: int(uids[0])}, true
}

// forkedBy returns the pids of a process's children.
func forkedBy(pid int) []int {
	parent, err := psutil.NewProcess(int32(pid))
	if err != nil {
		return nil
	}
	children, err := parent.Children()
	if err != nil {
		return nil
	}
	pids := make([]int, len(children))
	for i, c := range children {
		pids[i] = int(c.Pid)
	}
	return pids
}
