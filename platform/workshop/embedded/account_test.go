package embedded

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// These tests cover the differences between root and an ordinary user. Run as
// root they cover both, because root can switch to any account; run as an
// ordinary user they cover only that user's part.

// unprivileged returns credentials of an account that owns nothing, to start a
// process with; nil if this process is not root and therefore the ordinary user
// itself.
func unprivileged(t *testing.T) (*syscall.Credential, int) {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil, os.Geteuid()
	}
	acc, err := lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	return acc.credential(), acc.uid
}

func TestOrdinaryUserStartsAndOwnsTheData(t *testing.T) {
	t.Parallel()
	cred, uid := unprivileged(t)
	binary := testBinary(t)
	home := filepath.Dir(emptyDataDir(t))
	if err := os.Chown(home, uid, -1); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, "data")
	_, line := startHelper(t, binary, dir, cred)
	if line != "ready" {
		t.Fatal(line)
	}
	for _, name := range []string{"", "postgres", "redis", "nats", "log", markerName} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := int(info.Sys().(*syscall.Stat_t).Uid); got != uid {
			t.Errorf("%q belongs to uid %d, not to %d", name, got, uid)
		}
	}
}

// TestUserWithoutAName simulates a container started with an arbitrary user id.
func TestUserWithoutAName(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // only root can switch to an unnamed user id
	}
	const uid = 2_000_000_011 // far outside the ranges of systems and user namespaces
	binary := testBinary(t)
	home := filepath.Dir(emptyDataDir(t))
	if err := os.Chown(home, uid, -1); err != nil {
		t.Fatal(err)
	}
	_, line := startHelper(t, binary, filepath.Join(home, "data"), &syscall.Credential{Uid: uid, Gid: uid})
	want := fmt.Sprintf(conditions[CodeNamelessUser].sentence, uid)
	if line != want {
		t.Errorf("got  %s\nwant %s", line, want)
	}
}

func TestFolderThatTheAccountCannotEnter(t *testing.T) {
	t.Parallel()
	closed := filepath.Dir(emptyDataDir(t))
	dir := filepath.Join(closed, "shop", "data")
	if err := os.Mkdir(filepath.Join(closed, "shop"), 0o700); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(closed, "shop")
	var name string
	if os.Geteuid() == 0 {
		acc, err := accountFor(Config{DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		name = acc.name
	} else {
		me, err := user.Current()
		if err != nil {
			t.Fatal(err)
		}
		name = me.Username
		if err := os.Chmod(at, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(at, 0o700) }) // so that the folder can be deleted
	}
	_, err := Start(t.Context(), Config{DataDir: dir})
	assertCondition(t, err, CodeNotEnterable, 18, fmt.Sprintf("The account %q cannot enter the folder %s, so %s cannot hold "+
		`the data: choose another folder with --data, or give the account access with "chmod o+x %s".`, name, at, dir, at))
}

func TestRootGivesTheDataToTheAccount(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // there is no other account to give it to
	}
	dir := emptyDataDir(t)
	first := start(t, Config{DataDir: dir, RunAs: "nobody", Throwaway: true})
	execute(t, first, "CREATE TABLE kept (n int)")
	if first.RunAs != "nobody" {
		t.Errorf("runs as %q", first.RunAs)
	}
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Without RunAs the data stays with its owner.
	second := start(t, Config{DataDir: dir, Throwaway: true})
	if second.RunAs != "nobody" {
		t.Errorf("data owned by nobody was started as %q", second.RunAs)
	}
	if err := second.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	// With RunAs, another account gets all of it.
	third := start(t, Config{DataDir: dir, RunAs: "daemon", Throwaway: true})
	if got := query(t, third, "SELECT to_regclass('kept')::text"); got != "kept" {
		t.Errorf("got %q", got)
	}
	for _, name := range []string{"root", "no-such-account"} {
		_, err := Start(t.Context(), Config{DataDir: emptyDataDir(t), RunAs: name})
		assertCondition(t, err, CodeNoAccount, 21, "Postgres refuses to run as root and the account "+strconv.Quote(name)+
			" does not exist here: add it with \"useradd --system\", name another with --run-as, or start as an ordinary user.")
	}
}

// TestAttackPlantedNamesInTheDataFolder plants links under each name that a
// start writes to, as a taken-over account would before root starts again.
func TestAttackPlantedNamesInTheDataFolder(t *testing.T) {
	t.Parallel()
	acc, err := accountFor(Config{RunAs: "daemon"})
	if err != nil {
		t.Fatal(err)
	}
	write := func(dir string) error {
		d, err := openData(dir, acc, false)
		if err != nil {
			return err
		}
		err = d.prepare()
		if err == nil {
			var log *os.File
			if _, log, err = d.command("/bin/true", dir, "redis"); err == nil {
				err = log.Close()
			}
		}
		if err == nil {
			err = d.disownPidFile()
		}
		return errors.Join(err, d.release())
	}
	for _, name := range []string{lockName, markerName, "log/redis.log", "postgres/postmaster.pid"} {
		for how, plant := range map[string]func(target, name string) error{"symbolic": os.Symlink, "hard": os.Link} {
			for _, place := range []string{"outside", "inside"} {
				t.Run(name+" "+how+" "+place, func(t *testing.T) {
					t.Parallel()
					dir := emptyDataDir(t)
					if err := write(dir); err != nil {
						t.Fatal(err)
					}
					if err := os.Mkdir(filepath.Join(dir, "postgres"), 0o700); err != nil {
						t.Fatal(err)
					}
					precious := filepath.Join(map[string]string{"outside": filepath.Dir(dir), "inside": dir}[place], "precious")
					if err := os.WriteFile(precious, []byte("keep me"), 0o600); err != nil {
						t.Fatal(err)
					}
					_ = os.Remove(filepath.Join(dir, name)) // not all exist
					if err := plant(precious, filepath.Join(dir, name)); err != nil {
						t.Fatal(err)
					}
					err := write(dir)
					if raw, err := os.ReadFile(precious); err != nil || string(raw) != "keep me" {
						t.Errorf("the other file was written to: %q, %v", raw, err)
					}
					info, statErr := os.Stat(precious)
					if statErr != nil {
						t.Fatal(statErr)
					}
					if place == "outside" && int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
						t.Errorf("the other file was given away")
					}
					if how == "hard" && err == nil {
						t.Error("a file with a second name was accepted")
					}
				})
			}
		}
	}
}

// TestAttackRootKeepsNoPrivileges: the process that serves the public is the
// account on each of its threads, without root's groups.
func TestAttackRootKeepsNoPrivileges(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // it has none
	}
	acc, err := lookup("daemon")
	if err != nil {
		t.Fatal(err)
	}
	dir := usedDataDir(t) // of another account
	cmd, line := startHelper(t, testBinary(t), dir, nil, ownEnv+"="+acc.name)
	if line != "ready" {
		t.Fatal(line)
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads { // none on macOS
		raw, err := os.ReadFile(thread)
		if err != nil {
			continue // it has just exited
		}
		for field, want := range map[string]string{
			"Uid": fmt.Sprintf("\t%[1]d\t%[1]d\t%[1]d\t%[1]d", acc.uid), "Gid": fmt.Sprintf("\t%[1]d\t%[1]d\t%[1]d\t%[1]d", acc.gid),
			"Groups": "\t ", "CapPrm": "\t0000000000000000",
		} {
			if !strings.Contains(string(raw), "\n"+field+":"+want+"\n") {
				t.Errorf("%s: %s is not %q:\n%s", thread, field, want, raw)
			}
		}
	}
	if p, ok := inspect(cmd.Process.Pid); !ok || p.uid != acc.uid {
		t.Errorf("the process runs as %+v, want uid %d", p, acc.uid)
	}
	err = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && int(info.Sys().(*syscall.Stat_t).Uid) != acc.uid {
			t.Errorf("%s does not belong to the account", path)
		}
		return nil //nolint:nilerr // the servers delete files
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestOwnAccountIsNeverNobody(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // it is this user
	}
	nobody, err := lookup(shared)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, markerName, "")
	if err := os.Chown(filepath.Join(dir, markerName), nobody.uid, nobody.gid); err != nil {
		t.Fatal(err)
	}
	if acc, err := accountFor(Config{DataDir: dir}); err != nil || acc.name != shared {
		t.Errorf("disposable data of nobody: %+v, %v", acc, err)
	}
	if acc, err := accountFor(Config{DataDir: dir, OwnAccount: true}); acc.name == shared {
		t.Errorf("data of nobody: %+v, %v", acc, err)
	}
}
