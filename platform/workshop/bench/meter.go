package bench

import (
	"fmt"
	"os"
	"strings"
	"time"

	psutil "github.com/shirou/gopsutil/v4/process"
)

// The names under which the report lists processes.
const (
	nameSelf     = "this process"
	nameServer   = "server"
	nameBaseline = "bare"
	nameNATS     = "nats"
)

// usage is the processor time used so far, by name of process.
type usage map[string]time.Duration

// usage reads this process and its descendants. Figures that the system does
// not report are missing.
func (r *Rig) usage() usage {
	u := usage{}
	running, err := psutil.Processes()
	if err != nil {
		return u
	}
	children := map[int32][]*psutil.Process{}
	for _, p := range running {
		if parent, err := p.Ppid(); err == nil {
			children[parent] = append(children[parent], p)
		}
		if int(p.Pid) == os.Getpid() {
			u.add(nameSelf, p)
		}
	}
	var walk func(pid int32, name string)
	walk = func(pid int32, name string) {
		for _, p := range children[pid] {
			below := name
			if below == "" {
				below = r.nameOf(p)
			}
			u.add(below, p)
			walk(p.Pid, below)
		}
	}
	walk(int32(os.Getpid()), "")
	return u
}

// nameOf returns the name of a child of this process, "" if it only waits for its
// own children.
func (r *Rig) nameOf(p *psutil.Process) string {
	if name, ok := r.names[int(p.Pid)]; ok {
		return name
	}
	name, _ := p.Name()
	return nameOfStore(name)
}

// nameOfStore returns what the report calls a store's program, by which capacities find its costs.
func nameOfStore(program string) string {
	if program == "valkey-server" {
		return processRedis
	}
	return program
}

// add counts a process under a name, unless it has exited.
func (u usage) add(name string, p *psutil.Process) {
	if t, err := p.Times(); err == nil && name != "" {
		u[name] += time.Duration((t.User + t.System) * float64(time.Second))
	}
}

// since returns the usage since an earlier reading.
func (u usage) since(earlier usage) usage {
	d := usage{}
	for name, t := range u {
		if t -= earlier[name]; t > 0 {
			d[name] = t
		}
	}
	return d
}

// peakMiB returns the most memory that a process had in RAM, which only Linux reports; 0
// elsewhere, or if it has exited.
func peakMiB(pid int) (mib float64) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	_, _ = fmt.Sscan(peak, &mib) // in KiB
	return mib / 1024
}
