package embedded

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
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
			" does not exist here: name another account, or start as an ordinary user.")
	}
}

func TestPlantedLinksAreNotFollowedByRoot(t *testing.T) {
	t.Parallel()
	dir := usedDataDir(t)
	precious := filepath.Join(filepath.Dir(dir), "precious")
	write(t, filepath.Dir(dir), "precious", "keep me")
	log := filepath.Join(dir, "log", "redis.log")
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(precious, log); err != nil {
		t.Fatal(err)
	}
	again, err := Start(t.Context(), Config{DataDir: dir, Throwaway: true})
	if err == nil {
		t.Error("the start followed the link")
		_ = again.Stop(t.Context())
	}
	if raw, err := os.ReadFile(precious); err != nil || string(raw) != "keep me" {
		t.Errorf("the file the link leads to was touched: %q, %v", raw, err)
	}
}
