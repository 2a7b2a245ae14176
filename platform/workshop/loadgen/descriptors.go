package loadgen

import "golang.org/x/sys/unix"

// descriptorLimit is how many files this process may open. The Go runtime has
// already raised the soft limit to the hard one.
func descriptorLimit() int {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 1024 // the smallest default in common use
	}
	return int(min(l.Cur, 1<<20))
}
