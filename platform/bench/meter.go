package bench

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// process is what the system knows of one process.
type process struct {
	pid, parent int
	name        string
	// cpu is the processor time it has used, with that of its ended children
	// where the system adds it up.
	cpu time.Duration
}

// The names under which the report lists processes.
const (
	nameSelf   = "this process"
	nameServer = "server"
	nameFloor  = "bare floor"
)

// usage is the processor time used so far, by name of process.
type usage map[string]time.Duration

// usage reads this process and all below it. What the system cannot tell is
// missing.
func (r *Rig) usage() usage {
	all := processes()
	children := map[int][]process{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	u := usage{nameSelf: selfTime()}
	var walk func(pid int, name string)
	walk = func(pid int, name string) {
		for _, p := range children[pid] {
			below := name
			if below == "" {
				below = r.nameOf(p)
			}
			if below != "" { // else it does nothing but wait
				u[below] += p.cpu
			}
			walk(p.pid, below)
		}
	}
	walk(os.Getpid(), "")
	return u
}

// nameOf names a child of this process.
func (r *Rig) nameOf(p process) string {
	if name, ok := r.names[p.pid]; ok {
		return name
	}
	return p.name // postgres, redis-server
}

// since is what was used after an earlier reading.
func (u usage) since(earlier usage) usage {
	d := usage{}
	for name, t := range u {
		if t -= earlier[name]; t > 0 {
			d[name] = t
		}
	}
	return d
}

// selfTime is this process's own processor time.
func selfTime() time.Duration {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return 0 // it cannot fail for oneself
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
