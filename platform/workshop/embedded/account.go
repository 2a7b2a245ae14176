package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// account is the account that runs the servers and owns the data.
type account struct {
	name     string
	uid, gid int
	// switched says that this process is root and the servers run as another account.
	switched bool
}

// accountFor chooses the account: this user, or for root the one described at
// Config.RunAs.
func accountFor(cfg Config) (account, error) {
	if os.Geteuid() != 0 {
		name := strconv.Itoa(os.Geteuid())
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
		return account{name: name, uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	if cfg.RunAs != "" {
		acc, err := lookup(cfg.RunAs)
		if err != nil || acc.uid == 0 {
			return account{}, fail(CodeNoAccount, nil, cfg.RunAs)
		}
		return acc, nil
	}
	// Data from an earlier start stays with its owner, even if a package has
	// created a better account since.
	if info, err := os.Stat(filepath.Join(cfg.DataDir, markerName)); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 {
			if owner, err := user.LookupId(strconv.Itoa(int(stat.Uid))); err == nil {
				if acc, err := lookup(owner.Username); err == nil {
					return acc, nil
				}
			}
		}
	}
	// Homebrew and macOS write system accounts with an underscore. "nobody" exists everywhere, and is the last choice
	// because other services may share it.
	candidates := []string{"stampede", "postgres", "_postgres", "nobody"}
	for _, name := range candidates {
		if acc, err := lookup(name); err == nil && acc.uid != 0 {
			return acc, nil
		}
	}
	return account{}, fail(CodeNoAccount, nil, candidates[len(candidates)-1])
}

// lookup reads an account from the system's database.
func lookup(name string) (account, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return account{}, fmt.Errorf("look up account %s: %w", name, err)
	}
	acc := account{name: name, switched: true}
	// macOS's "nobody" is 4294967294, which fits an int on the 64-bit machines
	// this runs on.
	if acc.uid, err = strconv.Atoi(u.Uid); err != nil {
		return account{}, fmt.Errorf("look up account %s: %w", name, err)
	}
	if acc.gid, err = strconv.Atoi(u.Gid); err != nil {
		return account{}, fmt.Errorf("look up account %s: %w", name, err)
	}
	return acc, nil
}

// credential is the credential that a child starts with; nil means this
// process's. Supplementary groups are dropped.
func (a account) credential() *syscall.Credential {
	if !a.switched {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)} // they came from uint32
}

// blockedAt returns the first folder on the way to dir, from the root down, that the account cannot enter; "" if it can
// enter them all. A folder that does not exist yet does not block. dir is
// absolute, without symbolic links.
func (a account) blockedAt(dir string) string {
	var way []string
	for {
		way = append(way, dir)
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
	}
	slices.Reverse(way)
	for _, folder := range way {
		if !a.canEnter(folder) {
			return folder
		}
	}
	return ""
}

// canEnter asks the system for this process's own account, and reads the mode bits for another.
func (a account) canEnter(folder string) bool {
	if !a.switched {
		return unix.Access(folder, unix.X_OK) != unix.EACCES // a raw errno, never wrapped
	}
	info, err := os.Stat(folder)
	if err != nil {
		return !errors.Is(err, fs.ErrPermission) // other errors show when the folder is created
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	mode := info.Mode().Perm()
	switch {
	case int(stat.Uid) == a.uid:
		return mode&0o100 != 0
	case int(stat.Gid) == a.gid:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}
