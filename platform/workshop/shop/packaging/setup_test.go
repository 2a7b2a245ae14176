package packaging

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"stampede/platform/workshop/require"
)

// The setup script itself runs, with its own PATH.

func TestPackagingSetupScripts(t *testing.T) {
	t.Parallel()
	for _, script := range []string{".ci/setup", ".ci/packages", ".ci/run", ".ci/fresh"} {
		if out, err := exec.CommandContext(t.Context(), "bash", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
	// Of a clone in a folder whose name has a space.
	const wraps = `tools=$1 servers=$1 tree=$1 log=/dev/null; lib_path() { echo "$1/lib"; }; . .ci/packages; server "$(command -v env)"; "$1/bin/env"`
	dir := filepath.Join(t.TempDir(), "my clone")
	out, err := exec.CommandContext(t.Context(), "bash", "-euc", wraps, "wraps", dir).CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, "the environment of an unpacked server", string(out), "LD_LIBRARY_PATH="+dir+"/lib\n")
}

// packagingMachine returns a folder for PATH with the standard programs of
// every system, and the given programs, each a shell script.
func packagingMachine(t *testing.T, programs map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{
		"bash", "sh", "env", "sed", "cut", "tr", "date", "dirname", "basename", "readlink", "mkdir", "id", "sort", "cat",
		"echo", "mktemp", "rm", "chmod", "cksum", "cp", "cmp",
	} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatalf("this machine has no %s: %v", name, err)
		}
		require.NoError(t, os.Symlink(path, filepath.Join(dir, name)))
	}
	for name, body := range programs {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755))
	}
	return dir
}

func TestPackagingSetup(t *testing.T) {
	t.Parallel()
	const (
		compiler = `while [ "$1" != -o ]; do shift; done; echo '#!/bin/sh' >"$2"; chmod 755 "$2"`
		noRace   = "The tests ran without -race, because this machine has no working C compiler.\n"
	)
	version := packagingGoVersion(t)
	// A fake go that only prints its command line.
	machine := map[string]string{
		"go":       `if [ "$1" = run ]; then echo "go $*"; else echo go version go` + version + ` linux/amd64; fi`,
		"postgres": "echo 'postgres (PostgreSQL) 15.3 (Debian 15.3-1)'", "initdb": "", "pg_dump": "",
		"redis-server": "echo 'Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64'",
		"gcc":          compiler, "chromium": "", "nginx": "", "uname": "echo Darwin arm64", "node": "", "npm": "",
	}
	for _, test := range []struct {
		name, command string
		differs       map[string]string // differences from that machine; "-" means a missing program
		ci            string
		ok            bool
		says          []string
	}{
		{"exec", "exec", nil, "", true, []string{"[2/3] PostgreSQL 15.3 found in ", "[3/3] Redis 7.0.15 found in ", "the command ran"}},
		{"valkey", "exec", map[string]string{"redis-server": "exit 127", "valkey-server": "echo 'Valkey server v=8.1.4 sha=0:0'"}, "", true, []string{"[3/3] Valkey 8.1.4 found in "}},
		{"old postgres", "exec", map[string]string{"postgres": "echo 'postgres (PostgreSQL) 14.20'"}, "", false, []string{"No usable PostgreSQL was found", "`docker compose up`"}},
		{"no initdb", "exec", map[string]string{"initdb": "-"}, "", false, []string{"No usable PostgreSQL was found"}},
		{"no pg_dump", "exec", map[string]string{"pg_dump": "-"}, "", false, []string{"No usable PostgreSQL was found"}},
		{"no redis", "exec", map[string]string{"redis-server": "-"}, "", false, []string{"No usable Redis was found"}},
		{"no go", "exec", map[string]string{"go": "-"}, "", false, []string{"Go is not installed", version + " or newer", "https://go.dev/dl/"}},
		{"old go", "exec", map[string]string{"go": "echo go version go1.19.8 linux/amd64"}, "", false, []string{"Go 1.19.8 found at ", "needs Go " + version}},
		{"test", "test", nil, "", true, []string{"go run -race ./platform/workshop/pgtest/servers go test -p ", " -race -timeout 10m -v ./"}},
		{"no compiler", "test", map[string]string{"gcc": "exit 1"}, "", true, []string{" -ldflags=-s -w -timeout 10m -v ./", noRace}},
		{"no browser", "test", map[string]string{"chromium": "-"}, "", true, []string{"the browser test cannot run"}},
		{"no browser in CI", "test", map[string]string{"chromium": "-"}, "true", false, []string{"Chromium is required with CI=true"}},
		{"own browser", "test", nil, "true", true, []string{"Chromium found: ", "tests that measure pages are made for those"}},
		{"own browser where the pinned one runs", "test", map[string]string{"uname": "echo Linux x86_64"}, "true", false, []string{"The pinned Chromium is required with CI=true"}},
		{"other bytes", "test", map[string]string{"uname": "echo Linux x86_64", "node": "", "sha512sum": "exit 1", "npm": `echo others >"$6/a.tgz"; echo a.tgz`}, "", true, []string{"does not have the bytes that are pinned", "Chromium found: "}},
		{"no nginx in CI", "test", map[string]string{"nginx": "-"}, "true", false, []string{"nginx is required with CI=true"}},
		{"no npm", "test", map[string]string{"npm": "-"}, "", true, []string{"the generator of TypeScript clients could not be fetched: its test cannot run"}},
		{"no npm in CI", "test", map[string]string{"npm": "-"}, "true", false, []string{"The generator of TypeScript clients is required with CI=true"}},
		{"no compiler in CI", "test", map[string]string{"gcc": "-"}, "true", false, []string{"A C compiler is required with CI=true"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			programs := maps.Clone(machine)
			maps.Copy(programs, test.differs)
			maps.DeleteFunc(programs, func(_, body string) bool { return body == "-" })
			out, err := packagingRunSetup(t, packagingMachine(t, programs), []string{"CI=" + test.ci, "TESTFLAGS=-v"}, test.command, "echo", "the command ran")
			if (err == nil) != test.ok {
				t.Errorf("setup ended with %v", err)
			}
			require.Contains(t, "setup", out, test.says...)
		})
	}
}

// packagingRunSetup runs .ci/setup in a copy of the scripts, where nothing but the programs on path can be found and
// nothing can be fetched.
func packagingRunSetup(t *testing.T, path string, env []string, args ...string) (string, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "my clone") // a space must not matter
	require.NoError(t, os.MkdirAll(filepath.Join(dir, ".ci", "clients"), 0o755))
	for _, name := range []string{".ci/setup", ".ci/packages", "go.mod", ".ci/clients/package.json", ".ci/clients/package-lock.json"} {
		require.NoError(t, os.WriteFile(dir+"/"+name, []byte(packagingRead(t, name)), 0o755))
	}
	cmd := exec.CommandContext(t.Context(), path+"/bash", append([]string{dir + "/.ci/setup"}, args...)...)
	cmd.Env = append([]string{"PATH=" + path, "SETUP_WAYS=path", "HOME=" + dir}, env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}
