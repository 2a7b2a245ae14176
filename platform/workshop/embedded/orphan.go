package embedded

import (
	"context"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// orphanPoll is how often a process that is not our child is looked at while it ends; there is no signal for it.
	orphanPoll = 20 * time.Millisecond
	// orphanPatience is how long an orphan has for each signal. Postgres writes a checkpoint on a fast shutdown, which
	// may take some seconds on a slow disk; what it does not finish is replayed at the next start.
	orphanPatience = 15 * time.Second
)

// server describes one of the two servers as far as its process is concerned.
type server struct {
	// name is how a sentence calls it, and with a lower-case letter its log and its record.
	name, file string
	// mark is text that the command line of every process of ours carries, and nobody else's: a path.
	mark string
	// pidFile is the server's own, below the data folder. It covers the moment before a record was written.
	pidFile string
	// polite asks for a quick and clean end; firm, if set, gives up cleanliness. SIGKILL comes last.
	polite, firm syscall.Signal
}

// postgresServer: SIGINT is Postgres's fast shutdown (SIGTERM would wait for clients), SIGQUIT the immediate one, which
// takes its backends along as SIGKILL would not.
func postgresServer(data, _ string) server {
	return server{
		name: "Postgres", file: "postgres",
		mark:    " -D " + data + "/postgres ",
		pidFile: "postgres/postmaster.pid",
		polite:  syscall.SIGINT, firm: syscall.SIGQUIT,
	}
}

// redisServer: the title that Redis gives itself names its socket.
func redisServer(_, sockets string) server {
	return server{
		name: "Redis", file: "redis",
		mark:    sockets + "/" + redisSocket + " ",
		pidFile: "redis/redis.pid",
		polite:  syscall.SIGTERM,
	}
}

// isOurs says whether a process is this server, on this data.
func (s server) isOurs(p process, acc account) bool {
	return p.uid == acc.uid && strings.Contains(" "+p.args+" ", s.mark)
}

// orphanOf finds the process that an earlier start left behind for a server; pid 0 if there is none.
func orphanOf(s server, d *dataDir, sockets *socketDir) (pid int, start int64) {
	if r := sockets.recall(s.file); r.PID > 0 {
		if p, ok := inspect(r.PID); ok && p.start == r.Start && s.isOurs(p, d.acc) {
			return r.PID, p.start
		}
	}
	raw, err := d.root.ReadFile(s.pidFile)
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	own, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || own <= 0 {
		return 0, 0
	}
	if p, ok := inspect(own); ok && s.isOurs(p, d.acc) {
		return own, p.start
	}
	return 0, 0
}

// endOrphan ends the process that an earlier start left behind for a server, if there is one.
func endOrphan(ctx context.Context, s server, d *dataDir, sockets *socketDir) (ended bool, err error) {
	pid, start := orphanOf(s, d, sockets)
	if pid == 0 {
		return false, nil
	}
	// On Linux this is a handle on the process itself: once it is checked below, a signal cannot reach another process
	// that is given the same number.
	proc, err := os.FindProcess(pid)
	if err != nil {
		return false, nil // it has ended in this moment, as wanted
	}
	defer func() { _ = proc.Release() }() // only frees the handle
	gone := func() bool {
		p, ok := inspect(pid)
		return !ok || p.start != start
	}
	for _, sig := range []syscall.Signal{s.polite, s.firm, syscall.SIGKILL} {
		if sig == 0 {
			continue
		}
		if gone() {
			return true, nil
		}
		_ = proc.Signal(sig) // an error means that it has ended or may not be signalled; gone tells which
		if waitFor(ctx, gone) {
			return true, nil
		}
	}
	return false, fail(CodeOrphan, ctx.Err(), s.name, pid, d.path, pid)
}

// waitFor polls until done, orphanPatience, or ctx ends, and says whether done was reached.
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
