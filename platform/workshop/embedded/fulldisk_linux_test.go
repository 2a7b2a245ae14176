package embedded

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // a small file system can only be mounted by root
	}
	mount := filepath.Dir(emptyDataDir(t))
	// 24 MB is enough to begin creating a cluster, but not to complete it.
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=24m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Detached, because a child that another test forks at this moment holds
		// copies of our open files until it execs, and a plain unmount is then busy.
		if err := unix.Unmount(mount, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(mount, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(mount, "data")
	_, err := Start(t.Context(), Config{DataDir: dir, minFree: 1})
	assertCondition(t, err, CodeDiskFull, 16, "The disk that holds "+dir+" is full: free some space, or choose another folder with --data.")
}
