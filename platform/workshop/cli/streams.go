package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"stampede/platform/base/app"
	"stampede/platform/workshop/embedded"
)

// streamsFolder returns the absolute folder of the embedded NATS: the setting, or one
// that does not depend on where the server is started. former reports that it is
// data/nats below the working directory, which earlier versions took: its messages must
// not be left behind.
func streamsFolder(given string) (dir string, former bool, err error) {
	if given == "" {
		given = filepath.Join("data", "nats")
		_, err := os.Stat(given)
		if former = err == nil; !former {
			base := embedded.DefaultDataDir() // root's is absolute
			if !filepath.IsAbs(base) {
				home, err := os.UserHomeDir()
				if err != nil {
					return "", false, fmt.Errorf("no folder for the embedded NATS, set --nats-dir: %w", err)
				}
				base = filepath.Join(home, ".local", "share", "stampede")
			}
			given = filepath.Join(base, "nats")
		}
	}
	if dir, err = filepath.Abs(given); err != nil {
		return "", false, fmt.Errorf("find the folder of the embedded NATS: %w", err)
	}
	return dir, former, nil
}

// holdFolder keeps a second server, of another shop, out of the folder: two would destroy
// each other's streams.
func holdFolder(a *app.App, dir string) error {
	const private = 0o700
	if err := os.MkdirAll(dir, private); err != nil {
		return fmt.Errorf("folder of the embedded NATS (--nats-dir): %w", err)
	}
	held, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("folder of the embedded NATS (--nats-dir): %w", err)
	}
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil { //nolint:gosec // a descriptor
		_ = held.Close()
		return fmt.Errorf("another server keeps its streams in %s; give this one a folder of its own (--nats-dir)", dir)
	}
	a.OnStop("folder of the embedded nats", func(context.Context) error { return held.Close() })
	return nil
}
