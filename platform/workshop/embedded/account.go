package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// ownName is the account that is added for new data if the machine has none.
	ownName = "stampede"
	// shared exists everywhere, and any service may run as it: for data that is
	// deleted soon.
	shared = "nobody"
	// addTimeout bounds useradd, which takes a tenth of a second, and up to ten if
	// another program holds the lock on the accounts.
	addTimeout = 15 * time.Second
)

// account is one of the system's accounts.
type account struct {
	name     string
	uid, gid int
}

// leaveRoot makes a process that root started the account that owns the data,
// before it opens anything in the data folder: what the account may have
// planted there then opens nothing that the account could not open itself.
// Root gives the account the folder, and not what is in it.
func leaveRoot(ctx context.Context, cfg Config) error {
	if os.Geteuid() != 0 {
		return nil
	}
	acc, err := accountFor(ctx, cfg)
	if err != nil {
		return err
	}
	// The account must be able to enter the folders above its own.
	err = os.MkdirAll(filepath.Dir(cfg.DataDir), 0o755) //nolint:gosec // as said
	if err == nil {
		err = os.MkdirAll(cfg.DataDir, 0o700)
	}
	if err == nil {
		err = acc.takeFolder(cfg.DataDir)
	}
	if err == nil {
		err = acc.become()
	}
	return dataError(cfg.DataDir, err)
}

// accountFor chooses the account as Config.RunAs describes.
func accountFor(ctx context.Context, cfg Config) (account, error) {
	names := []string{cfg.RunAs}
	if cfg.RunAs == "" {
		if acc, ok := earlierOwner(cfg); ok {
			return acc, nil
		}
		// Homebrew and macOS write system accounts with an underscore.
		names = []string{ownName, "postgres", "_postgres"}
		if cfg.OwnAccount {
			addAccount(ctx, cfg)
		} else {
			names = append(names, shared)
		}
	}
	for _, name := range names {
		if acc, err := known(user.Lookup(name)); err == nil && acc.uid != 0 {
			return acc, nil
		}
	}
	return account{}, fail(CodeNoAccount, nil, cmp.Or(cfg.RunAs, ownName))
}

// earlierOwner returns the owner of existing data: it stays with that account,
// even if a package has created a better one since.
func earlierOwner(cfg Config) (account, bool) {
	uid, ok := ownerOf(filepath.Join(cfg.DataDir, markerName))
	if !ok || uid == 0 {
		return account{}, false
	}
	acc, err := known(user.LookupId(strconv.Itoa(uid)))
	return acc, err == nil && (!cfg.OwnAccount || acc.name != shared)
}

// ownerOf returns the user id of a file's owner; false if there is no such file.
func ownerOf(path string) (uid int, ok bool) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return int(stat.Uid), ok
}

// addAccount adds the system account if the machine has none. A system without
// useradd, or with a read-only /etc, keeps its accounts.
func addAccount(ctx context.Context, cfg Config) {
	if _, err := user.Lookup(ownName); err == nil {
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

// known converts an entry of the system's database.
func known(u *user.User, err error) (account, error) {
	if err != nil {
		return account{}, fmt.Errorf("look up an account: %w", err)
	}
	// macOS's "nobody" is 4294967294, which fits an int on the 64-bit machines
	// this runs on.
	uid, uidErr := strconv.Atoi(u.Uid)
	gid, gidErr := strconv.Atoi(u.Gid)
	return account{name: u.Username, uid: uid, gid: gid}, errors.Join(uidErr, gidErr)
}

// takeFolder gives the account a data folder that is empty or ours, unless the
// data in it is another account's.
func (a account) takeFolder(dir string) error {
	folder, err := os.OpenFile(dir, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }() // a folder handle has nothing to flush
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return err
	}
	if err := refuseForeign(dir, names); err != nil {
		return err
	}
	if uid, ok := ownerOf(filepath.Join(dir, markerName)); ok && uid != a.uid {
		return fail(CodeDataUnreadable, nil, dir, fmt.Sprintf(`what is in it does not belong to the account %s; "chown -R %s: %s" gives it all`, a.name, a.name, dir))
	}
	return folder.Chown(a.uid, a.gid)
}

// become makes this process the account, on all its threads and for good.
func (a account) become() error {
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
	return nil
}

// ownAccount is the name of this process's account, its number if it has none.
// user.Current would name the account that the process had when it first asked.
func ownAccount() string {
	id := strconv.Itoa(os.Geteuid())
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}

// blockedAt returns the first folder on the way to dir, from the root down, that
// this process cannot enter; "" if it can enter them all. A folder that does not
// exist yet does not block. dir is absolute, without symbolic links.
func blockedAt(dir string) string {
	if parent := filepath.Dir(dir); parent != dir {
		if blocked := blockedAt(parent); blocked != "" {
			return blocked
		}
	}
	if unix.Access(dir, unix.X_OK) == unix.EACCES { // a raw errno, never wrapped
		return dir
	}
	return ""
}
