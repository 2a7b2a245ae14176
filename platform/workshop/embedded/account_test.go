package embedded

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"stampede/platform/workshop/require"
)

func TestFolderThatTheAccountCannotEnter(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(filepath.Dir(emptyDataDir(t)), "shop", "data")
	at := filepath.Dir(dir)
	require.NoError(t, os.Mkdir(at, 0o600))
	t.Cleanup(func() { _ = os.Chmod(at, 0o700) }) // so that the folder can be deleted
	_, err := Start(t.Context(), Config{DataDir: dir})
	assertCondition(t, err, CodeNotEnterable, 18, fmt.Sprintf("The account %q cannot enter the folder %s, so %s cannot hold "+
		`the data: choose another folder with --data, or give the account access with "chmod o+x %s".`, ownAccount(), at, dir, at))
}

func TestOwnAccountIsNeverNobody(t *testing.T) {
	t.Parallel()
	dir := emptyDataDir(t)
	write(t, dir, markerName, "")
	if ownAccount() != shared {
		return // the marker is this user's
	}
	if acc, ok := earlierOwner(Config{DataDir: dir}); !ok || acc.name != shared {
		t.Errorf("disposable data of nobody: %+v", acc)
	}
	if acc, ok := earlierOwner(Config{DataDir: dir, OwnAccount: true}); ok {
		t.Errorf("data of nobody: %+v", acc)
	}
}

var (
	seedFolder string // of seed
	// helperProgram is this test binary, where the tests' account can run it.
	helperProgram string
	// smallDisk is an empty file system of 24 MB: enough to begin creating a
	// cluster, but not to complete it. Only root can mount one; "" without.
	smallDisk string
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperEnv); dir != "" {
		helper(dir)
		return
	}
	var err error
	if helperProgram, err = os.Executable(); err == nil && os.Geteuid() == 0 {
		err = prepareAsRoot()
	}
	if err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(seedFolder)
		os.Exit(code)
	}))
}

// prepareAsRoot prepares what the tests' account cannot. A shell, which stays
// root, removes it once this process has ended.
func prepareAsRoot() error {
	dir, err := os.MkdirTemp("", "stampede-embedded-")
	if err != nil {
		return err
	}
	cmd := exec.Command("sh", "-c", `chmod 755 "$0"; install -m 755 "$1" "$0/helper"; mkdir "$0/disk"
		mount -t tmpfs -o size=24m,mode=1777 tmpfs "$0/disk" && echo mounted || echo none
		cat; umount -l "$0/disk"; rm -rf "$0"`, dir, helperProgram)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if _, err = cmd.StdinPipe(); err != nil { // closed by this process's end
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	janitor = cmd
	said, err := bufio.NewReader(out).ReadString('\n')
	if helperProgram = filepath.Join(dir, "helper"); said == "mounted\n" {
		smallDisk = filepath.Join(dir, "disk")
	}
	return err
}

// janitor is kept, because its pipe closes with it.
var janitor *exec.Cmd

// As root the tests are those of an ordinary user, too: this process becomes
// "nobody" before the first of them makes a folder. What only root does is
// tested in package asroot.
var ordinary = sync.OnceValue(func() error {
	if os.Geteuid() != 0 {
		return nil
	}
	nobody, err := accountFor(context.Background(), Config{RunAs: shared})
	if err == nil {
		err = nobody.become()
	}
	return err
})

// seed is data that was started and stopped once. Most tests begin with a copy
// of it, because creating a cluster takes ten times as long as starting one.
var seed = sync.OnceValues(func() (string, error) {
	var err error
	if seedFolder, err = os.MkdirTemp("", "stampede-seed-"); err != nil {
		return "", err
	}
	dir := filepath.Join(resolveExisting(seedFolder), "data")
	s, err := Start(context.Background(), Config{DataDir: dir, Throwaway: true})
	if err != nil {
		return "", err
	}
	return dir, s.Stop(context.Background())
})

// usedDataDir returns a data folder of an earlier start that was stopped cleanly.
func usedDataDir(t *testing.T) string {
	t.Helper()
	dir := emptyDataDir(t)
	copySeed(t, dir)
	return dir
}

func copySeed(t *testing.T, dir string) {
	t.Helper()
	from, err := seed()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(dir), 0o755))
	if out, err := exec.Command("cp", "-a", from, dir).CombinedOutput(); err != nil {
		t.Fatalf("copy: %v: %s", err, out)
	}
}
