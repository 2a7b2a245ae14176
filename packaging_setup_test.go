package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The set-up script runs for real, on a PATH of its own.

func TestPackagingSetupScripts(t *testing.T) {
	t.Parallel()
	for _, script := range []string{".ci/setup", ".ci/packages", ".ci/run", ".ci/fresh"} {
		if out, err := exec.CommandContext(t.Context(), "bash", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
}

// packagingMachine is a folder for PATH that has what every system has, and the given programs, each a shell script.
func packagingMachine(t *testing.T, programs map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{
		"bash", "sh", "env", "sed", "cut", "tr", "date", "dirname", "basename", "readlink", "mkdir", "uname", "id", "sort", "cat",
		"echo", "mktemp", "rm", "chmod",
	} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatalf("this machine has no %s: %v", name, err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, body := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPackagingSetup(t *testing.T) {
	t.Parallel()
	goNow := fmt.Sprintf("echo go version go%s linux/amd64", packagingGoVersion(t))
	const (
		postgres15 = "echo 'postgres (PostgreSQL) 15.3 (Debian 15.3-1)'"
		redis7     = "echo 'Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64'"
	)
	for _, test := range []struct {
		name     string
		programs map[string]string
		ok       bool
		says     []string
	}{
		{
			"both are there",
			map[string]string{"go": goNow, "postgres": postgres15, "initdb": "", "redis-server": redis7},
			true,
			[]string{"[1/3] Go ", "[2/3] PostgreSQL 15.3 found in ", "[3/3] Redis 7.0.15 found in ", "the command ran"},
		},
		{"valkey will do", map[string]string{
			"go": goNow, "postgres": postgres15, "initdb": "", "redis-server": "echo 'Redis server v=6.2.1'",
			"valkey-server": "echo 'Valkey server v=8.1.4 sha=00000000:0'",
		}, true, []string{"[3/3] Valkey 8.1.4 found in "}},
		{
			"old postgres",
			map[string]string{"go": goNow, "postgres": "echo 'postgres (PostgreSQL) 14.20'", "initdb": "", "redis-server": redis7},
			false,
			[]string{"No usable PostgreSQL was found", "`docker compose up`", "`stampede serve --database-url"},
		},
		{"postgres without initdb", map[string]string{"go": goNow, "postgres": postgres15, "redis-server": redis7}, false, []string{"PostgreSQL"}},
		{"no redis", map[string]string{"go": goNow, "postgres": postgres15, "initdb": ""}, false, []string{"No usable Redis was found"}},
		{
			"redis that cannot start",
			map[string]string{"go": goNow, "postgres": postgres15, "initdb": "", "redis-server": "exit 127"},
			false,
			[]string{"No usable Redis was found"},
		},
		{"no go", nil, false, []string{"Go is not installed", packagingGoVersion(t) + " or newer", "https://go.dev/dl/"}},
		{
			"old go that cannot fetch another",
			map[string]string{"go": "echo go version go1.19.8 linux/amd64"},
			false,
			[]string{"Go 1.19.8 found at ", "needs Go " + packagingGoVersion(t), "https://go.dev/dl/"},
		},
		{"old go that fetches the right one", map[string]string{
			"go": "case $1 in env) echo auto ;; *) echo go version go1.24.4 linux/amd64 ;; esac", "postgres": postgres15, "initdb": "",
			"redis-server": redis7,
		}, true, []string{"the go command downloads that version itself", "started by Go 1.24.4"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			out, err := packagingRunSetup(t, packagingMachine(t, test.programs), nil, "exec", "echo", "the command ran")
			var failed *exec.ExitError
			if errors.As(err, &failed) == test.ok || (err != nil && failed == nil) {
				t.Errorf("ended with %v", err)
			}
			for _, want := range test.says {
				if !strings.Contains(out, want) {
					t.Errorf("does not say %q", want)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// TestPackagingSetupTest runs `.ci/setup test` with a go that only repeats what it was told.
func TestPackagingSetupTest(t *testing.T) {
	t.Parallel()
	servers := map[string]string{
		"go":       fmt.Sprintf(`if [ "$1" = test ]; then echo "go $*"; else echo go version go%s linux/amd64; fi`, packagingGoVersion(t)),
		"postgres": "echo 'postgres (PostgreSQL) 17.2'", "initdb": "", "redis-server": "echo 'Redis server v=7.2.4'",
	}
	const (
		compiler = `while [ "$1" != -o ]; do shift; done; echo '#!/bin/sh' >"$2"; chmod 755 "$2"`
		noRace   = "The tests ran without -race, because this machine has no working C compiler.\n"
	)
	for _, test := range []struct {
		name       string
		more       map[string]string
		env        []string
		ok         bool
		says, ends string
	}{
		{"compiler", map[string]string{"gcc": compiler, "chromium": "", "nginx": ""}, nil, true, "go test -race -timeout 10m -v ./...\n", " s)\n"},
		{"no compiler", map[string]string{"chromium": "", "nginx": ""}, nil, true, "go test -timeout 10m -v ./...\n", noRace},
		{"compiler without headers", map[string]string{"gcc": "exit 1", "chromium": "", "nginx": ""}, nil, true, "go test -timeout 10m -v ./...\n", noRace},
		{"another compiler", map[string]string{"gcc": "exit 1", "clang": compiler, "chromium": "", "nginx": ""}, nil, true, "-race: clang", " s)\n"},
		{"no browser", map[string]string{"gcc": compiler}, nil, true, "the browser test cannot run", " s)\n"},
		{"no browser in CI", map[string]string{"gcc": compiler}, []string{"CI=true"}, false, "Chromium is required with CI=true", "fetched.\n"},
		{"no nginx", map[string]string{"gcc": compiler, "chromium": ""}, nil, true, "the test of its example cannot run", " s)\n"},
		{
			"no nginx in CI",
			map[string]string{"gcc": compiler, "chromium": ""},
			[]string{"CI=true"},
			false,
			"nginx is required with CI=true", "fetched.\n",
		},
		{"no compiler in CI", nil, []string{"CI=true"}, false, "A C compiler is required with CI=true", "fetched.\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			programs := maps.Clone(servers)
			maps.Copy(programs, test.more)
			out, err := packagingRunSetup(t, packagingMachine(t, programs), append(test.env, "TESTFLAGS=-v"), "test")
			if (err == nil) != test.ok || !strings.Contains(out, test.says) || !strings.HasSuffix(out, test.ends) {
				t.Errorf("ended with %v, want %q and at the end %q; said:\n%s", err, test.says, test.ends, out)
			}
		})
	}
}

// packagingRunSetup runs .ci/setup in a copy of the scripts, where nothing but the programs on path can be found and
// nothing can be fetched.
func packagingRunSetup(t *testing.T, path string, env []string, args ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".ci"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".ci/setup", ".ci/packages", "go.mod"} {
		if err := os.WriteFile(dir+"/"+name, []byte(packagingRead(t, name)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), path+"/bash", append([]string{dir + "/.ci/setup"}, args...)...)
	cmd.Env = append([]string{"PATH=" + path, "SETUP_WAYS=path", "HOME=" + dir}, env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}
