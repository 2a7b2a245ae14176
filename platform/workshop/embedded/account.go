package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ownName is the account that is added for new data if the machine has none.
const ownName = "stampede"

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
	if acc, ok := earlierOwner(cfg); ok {
		return acc, nil
	}
	// Homebrew and macOS write system accounts with an underscore.
	candidates := []string{ownName, "postgres", "_postgres"}
	if !cfg.OwnAccount {
		candidates = append(candidates, shared)
	}
	for _, name := range candidates {
		if acc, err := lookup(name); err == nil && acc.uid != 0 {
			return acc, nil
		}
	}
	return account{}, fail(CodeNoAccount, nil, ownName)
}

// shared exists everywhere, and any service may run as it: for data that is
// deleted soon.
const shared = "nobody"

// earlierOwner returns the owner of existing data: it stays with that account,
// even if a package has created a better one since.
func earlierOwner(cfg Config) (account, bool) {
	info, err := os.Lstat(filepath.Join(cfg.DataDir, markerName))
	if err != nil {
		return account{}, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Uid == 0 {
		return account{}, false
	}
	owner, err := user.LookupId(strconv.Itoa(int(stat.Uid)))
	if err != nil || cfg.OwnAccount && owner.Username == shared {
		return account{}, false
	}
	acc, err := lookup(owner.Username)
	return acc, err == nil
}

// addAccount adds the system account for new data, if this process is root and
// the machine has none. A system without useradd, or with a read-only /etc,
// keeps its accounts: accountFor then takes another or refuses.
func addAccount(ctx context.Context, cfg Config) {
	if !cfg.OwnAccount || os.Geteuid() != 0 || cfg.RunAs != "" {
		return
	}
	if _, ok := earlierOwner(cfg); ok {
		return
	}
	if _, err := lookup(ownName); err == nil {
		return
	}
	err := cfg.timed(ctx, "add the system account "+ownName, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, addTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, "/usr/sbin/useradd", "--system", "--user-group", "--no-create-home",
			"--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", ownName)
		cmd.Env = childEnv()
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("useradd: %w: %s", err, said)
		}
		return nil
	})
	if err != nil {
		cfg.Logger.WarnContext(ctx, "system account not added", "account", ownName, "error", err)
	}
}

// addTimeout bounds useradd, which takes a tenth of a second, and up to ten if
// another program holds the lock on the accounts.
const addTimeout = 15 * time.Second

// become makes this process the account, on all its threads and for good. It
// does nothing unless root started the process for another account.
func (a *account) become() error {
	if !a.switched {
		return nil
	}
	// The user id goes last: without it, the process may not change its groups.
	err := syscall.Setgroups(nil)
	if err == nil {
		err = syscall.Setgid(a.gid)
	}
	if err == nil {
		err = syscall.Setuid(a.uid)
	}
	if err != nil {
		return fmt.Errorf("become account %s: %w", a.name, err)
	}
	a.switched = false
	return nil
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
