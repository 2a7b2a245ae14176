package backup_test

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"stampede/platform/store/backup"
	"stampede/platform/workshop/embedded"
	"stampede/platform/workshop/require"
)

// A full disk is named, and keeps nothing of the backup.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("this test mounts a small disk, which only root may: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(folder, 0)) })
	found, err := embedded.Find()
	require.NoError(t, err)
	url := emptied(t)
	fill(t, url, 90_000)
	key, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	place, err := backup.At(folder)
	require.NoError(t, err)
	_, _, err = backup.Create(t.Context(), place, found.Tool("pg_dump"), url, backup.About{Made: time.Now()}, key.Recipient())
	left, _ := os.ReadDir(folder)
	if !errors.Is(err, syscall.ENOSPC) || len(left) > 0 {
		t.Errorf("on a full disk: %v, left %v", err, left)
	}
}
