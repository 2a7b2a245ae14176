// Package disk tells how much of a disk is free, and replaces files.
package disk

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Free returns the bytes below a folder that a process without root's reserve may use.
func Free(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:gosec // no disk has 2^63 bytes; the types differ between systems
}
