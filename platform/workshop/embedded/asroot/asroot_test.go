// Package asroot tests what a process that root started does before it is another account.
package asroot

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"stampede/platform/workshop/embedded"
	"stampede/platform/workshop/require"
)

// A start by root changes its process for good, so each is that of a helper:
// this binary, with its configuration in the environment.
const (
	dataEnv  = "STAMPEDE_EMBEDDED_TEST_DATA"
	runAsEnv = "STAMPEDE_EMBEDDED_TEST_RUN_AS"
	ownEnv   = "STAMPEDE_EMBEDDED_TEST_OWN_ACCOUNT"
)

func TestMain(m *testing.M) {
	switch dir := os.Getenv(dataEnv); {
	case dir != "":
		helper(dir)
	case os.Geteuid() == 0:
		os.Exit(m.Run())
	}
}

// helper prints one line, "ready" or the error, and runs until its standard
// input ends.
func helper(dir string) {
	ctx := context.Background()
	_, _ = user.Current() // which remembers its answer, and the program asks while it is root's
	s, err := embedded.Start(ctx, embedded.Config{DataDir: dir, Throwaway: true, RunAs: os.Getenv(runAsEnv), OwnAccount: os.Getenv(ownEnv) != ""})
	if err != nil {
		fmt.Println(strings.ReplaceAll(err.Error(), "\n", " | ")) //nolint:forbidigo // the test reads it
		return
	}
	fmt.Println("ready")                              //nolint:forbidigo // likewise
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // the end of the input means stop
	if err := s.Stop(ctx); err != nil {
		fmt.Println(err) //nolint:forbidigo // likewise
	}
}

// start runs the helper and returns its first line. stop waits for its end.
func start(t *testing.T, program, dir string, cred *syscall.Credential, env ...string) (pid int, line string, stop func()) {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Env = append(append(os.Environ(), dataEnv+"="+dir), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	stop = func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	}
	t.Cleanup(stop)
	line, err = bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	return cmd.Process.Pid, strings.TrimSpace(line), stop
}

// run is start with the helper's own binary as root, and stop.
func run(t *testing.T, dir string, env ...string) (line string) {
	t.Helper()
	_, line, stop := start(t, self(t), dir, nil, env...)
	stop()
	return line
}

func self(t *testing.T) string {
	t.Helper()
	name, err := os.Executable()
	require.NoError(t, err)
	return name
}

// emptyDataDir is the path of a data folder that does not exist yet, below one that any account can enter.
func emptyDataDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	return filepath.Join(dir, "data")
}

func idOf(t *testing.T, name string) int {
	t.Helper()
	u, err := user.Lookup(name)
	require.NoError(t, err)
	id, err := strconv.Atoi(u.Uid)
	require.NoError(t, err)
	return id
}

// strangers lists the files in dir that are not the account's.
func strangers(t *testing.T, dir string, uid int) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && int(info.Sys().(*syscall.Stat_t).Uid) != uid {
			found = append(found, path)
		}
		return nil //nolint:nilerr // the servers delete files
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return found
}

// TestAttackRootKeepsNoPrivileges: the process that serves the public is the
// account on each of its threads, without root's groups, and all data is its.
func TestAttackRootKeepsNoPrivileges(t *testing.T) {
	t.Parallel()
	daemon, dir := idOf(t, "daemon"), emptyDataDir(t)
	pid, line, _ := start(t, self(t), dir, nil, runAsEnv+"=daemon", ownEnv+"=1")
	require.Equal(t, "said", line, "ready")
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	require.NoError(t, err)
	for _, thread := range threads { // none on macOS
		raw, err := os.ReadFile(thread)
		if err != nil {
			continue // it has just exited
		}
		four := strings.Repeat(fmt.Sprintf("\t%d", daemon), 4)
		for field, want := range map[string]string{"Uid": four, "Gid": four, "Groups": "\t ", "CapPrm": "\t0000000000000000"} {
			if !strings.Contains(string(raw), "\n"+field+":"+want+"\n") {
				t.Errorf("%s: %s is not %q:\n%s", thread, field, want, raw)
			}
		}
	}
	require.Equal(t, "files that are not the account's", strangers(t, dir, daemon), nil)
}

// TestAttackPlantedNamesInTheDataFolder plants links under each name that a
// start writes to, as a taken-over account would before root starts again.
func TestAttackPlantedNamesInTheDataFolder(t *testing.T) {
	t.Parallel()
	used := emptyDataDir(t)
	require.Equal(t, "said", run(t, used, runAsEnv+"=daemon"), "ready")
	for _, name := range []string{"lock", "stampede.json", "log/redis.log", "postgres/postmaster.pid", "redis", "nats"} {
		for how, plant := range map[string]func(target, name string) error{"symbolic": os.Symlink, "hard": os.Link} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				dir := emptyDataDir(t)
				if out, err := exec.Command("cp", "-a", used, dir).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				precious := filepath.Join(filepath.Dir(dir), "precious")
				require.NoError(t, os.WriteFile(precious, []byte("keep me"), 0o600))
				planted := filepath.Join(dir, name)
				require.NoError(t, cmp.Or(os.RemoveAll(planted), plant(precious, planted)))
				line := run(t, dir)
				if raw, err := os.ReadFile(precious); err != nil || string(raw) != "keep me" {
					t.Errorf("%s: the other file was written to: %q, %v", line, raw, err)
				}
				require.Equal(t, line+": files given away", strangers(t, precious, 0), nil)
			})
		}
	}
}

func TestRootGivesTheFolderToTheAccount(t *testing.T) {
	t.Parallel()
	dir := emptyDataDir(t)
	require.Equal(t, "said", run(t, dir, runAsEnv+"=nobody"), "ready")
	// Without RunAs the data stays with its owner.
	nobody := idOf(t, "nobody")
	require.Equal(t, "said", run(t, dir), "ready")
	require.Equal(t, "files that are not nobody's", strangers(t, dir, nobody), nil)
	// Root does not give away what is in the folder.
	want := fmt.Sprintf(`The data folder %s cannot be used (what is in it does not belong to the account daemon; "chown -R daemon: %s" gives it all): `+
		"fix that, or choose another folder with --data.", dir, dir)
	require.Equal(t, "said", run(t, dir, runAsEnv+"=daemon"), want)
	require.Equal(t, "files given away", strangers(t, dir, nobody), nil)
	if out, err := exec.Command("chown", "-R", "daemon:", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	require.Equal(t, "said", run(t, dir, runAsEnv+"=daemon"), "ready")
}

func TestAccountsThatRootCannotBecome(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"root", "no-such-account"} {
		want := "Postgres refuses to run as root and the account " + strconv.Quote(name) +
			" does not exist here: add it with \"useradd --system\", name another with --run-as, or start as an ordinary user."
		require.Equal(t, "said", run(t, emptyDataDir(t), runAsEnv+"="+name), want)
	}
	locked := emptyDataDir(t)
	require.NoError(t, os.Mkdir(locked, 0o700))
	require.Contains(t, "said below a folder of root's", run(t, filepath.Join(locked, "data"), runAsEnv+"=nobody"), `The account "nobody" cannot enter the folder `+locked)
	dir := emptyDataDir(t)
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o600))
	if line := run(t, dir); !strings.Contains(line, "contains no Stampede data") || len(strangers(t, dir, 0)) > 0 {
		t.Errorf("a folder with something else in it: %s, given away: %v", line, strangers(t, dir, 0))
	}
}

// TestUserWithoutAName simulates a container started with an arbitrary user id.
func TestUserWithoutAName(t *testing.T) {
	t.Parallel()
	const uid = 2_000_000_011 // far outside the ranges of systems and user namespaces
	dir := emptyDataDir(t)
	home := filepath.Dir(dir)
	program := filepath.Join(home, "helper")
	if out, err := exec.Command("install", "-m", "755", self(t), program).CombinedOutput(); err != nil { // this binary
		t.Fatalf("%v: %s", err, out)
	}
	require.NoError(t, os.Chown(home, uid, -1))
	_, line, _ := start(t, program, dir, &syscall.Credential{Uid: uid, Gid: uid})
	require.Equal(t, "said", line, fmt.Sprintf("Postgres refuses to run as the user id %d, which has no name on this machine: start as an account that has one.", uid))
}
