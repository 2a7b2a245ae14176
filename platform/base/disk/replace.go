package disk

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// Replace makes a file of what write writes, which has its name once it is whole and synced: until then, and after an
// error, the name stands for what it did before.
func Replace(name string, mode os.FileMode, write func(w io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	err = write(f)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	folder, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	err = folder.Sync()
	if errors.Is(err, syscall.EINVAL) { // a folder on a network may not know it
		err = nil
	}
	return errors.Join(err, folder.Close())
}
