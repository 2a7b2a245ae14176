package embedded

import (
	"slices"

	psutil "github.com/shirou/gopsutil/v4/process"
)

// process is the system's information about a running process.
type process struct {
	// start is when it began, in Unix milliseconds: with the pid it identifies a process among all that ever had this pid.
	start int64
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
	status, err := running.Status()
	if err != nil || slices.Contains(status, psutil.Zombie) {
		return process{}, false
	}
	if p.start, err = running.CreateTime(); err != nil {
		return process{}, false
	}
	if p.args, err = running.Cmdline(); err != nil {
		return process{}, false
	}
	uids, err := running.Uids()
	if err != nil || len(uids) == 0 {
		return process{}, false
	}
	p.uid = int(uids[0])
	return p, true
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
