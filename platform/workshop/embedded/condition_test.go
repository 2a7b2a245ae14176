package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"stampede/platform/workshop/require"
)

// writeProgram writes a file that can be run.
func writeProgram(t *testing.T, path string, content []byte) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	// A child forked meanwhile would have the file open for writing, and then
	// it cannot be executed.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, content, 0o755))
}

// fakeProgram writes a program that answers --version like a server of that version, and fails at everything else.
func fakeProgram(t *testing.T, dir, name, version string) {
	t.Helper()
	script := "#!/bin/sh\nif [ \"$1\" = --version ]; then echo '" + version + "'; exit 0; fi\necho 'last words' >&2\nexit 3\n"
	writeProgram(t, filepath.Join(dir, name), []byte(script))
}

func TestConditions(t *testing.T) {
	t.Parallel()
	const remedy = `start with "make run", which fetches it, or with "docker compose up", or use servers of your own with ` +
		`"stampede serve --database-url … --redis-url …".`
	foreign := map[string]string{"thesis.tex": "years of work"}
	const refused = `<data> is not empty and contains no Stampede data (found "thesis.tex"): choose an empty or a new folder with --data, with make: make run ARGS='--data FOLDER'.`
	for _, c := range []struct {
		name     string
		files    map[string]string // in the data folder, which does not exist otherwise
		cfg      Config
		code     Code
		exit     int
		sentence string // about <data>, and its <sockets>
	}{
		{"a folder with something else in it", foreign, Config{}, CodeForeignFolder, 19, refused},
		{"a fresh start on a folder with something else in it", foreign, Config{Fresh: true}, CodeForeignFolder, 19, refused},
		{
			"data of a newer version",
			map[string]string{markerName: `{"format": 7}`},
			Config{},
			CodeNewerData, 17,
			"The data in <data> was written by a newer stampede (format 7, this one knows up to 1): use that version, choose another folder with --data, or start over with --fresh.",
		},
		{
			"data of another Postgres",
			map[string]string{markerName: `{"format": 1}`, "postgres/PG_VERSION": "99\n"},
			Config{},
			CodeMajorMismatch, 20,
			"The data in <data> was written by PostgreSQL 99, and only PostgreSQL " + strings.Join(versions(postgresKind.in(searchDirs())), ", ") +
				" was found: install PostgreSQL 99, choose another folder with --data, or start over with --fresh.",
		},
		{
			"a disk that is nearly full", nil,
			Config{minFree: 1 << 62},
			CodeDiskLow, 15,
			fmt.Sprintf("The disk that holds <data> has # MB free, and Stampede needs at least %d MB: free some space, or choose another folder with --data.", (1<<62)>>20),
		},
		{
			"a data folder that is a file",
			map[string]string{"": "a file"},
			Config{},
			CodeDataUnreadable, 25,
			"The data folder <data> cannot be used (not a directory): fix that, or choose another folder with --data.",
		},
		{
			"a server that cannot start", nil,
			Config{Throwaway: true, RedisSettings: map[string]string{"maxmemory-policy": "sometimes"}},
			CodeChildFailed, 23,
			"Redis did not start; the cause is at the end of <data>/log/redis.log.",
		},
		{
			"an open folder where the sockets should be", nil,
			Config{},
			CodeUnsafeSockets, 22,
			"The folder for the sockets, <sockets>, belongs to another user or is accessible to others: remove it, or set TMPDIR to a folder of your own.",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.cfg.DataDir = emptyDataDir(t)
			sockets := socketPath(c.cfg.DataDir)
			for name, content := range c.files {
				write(t, c.cfg.DataDir, name, content)
			}
			if c.code == CodeUnsafeSockets {
				require.NoError(t, os.Mkdir(sockets, 0o755))
				t.Cleanup(func() { _ = os.Remove(sockets) })
			}
			s, err := Start(t.Context(), c.cfg)
			if err == nil {
				_ = s.Stop(context.Background())
			}
			assertCondition(t, hideFreeSpace(err), c.code, c.exit, strings.NewReplacer("<data>", c.cfg.DataDir, "<sockets>", sockets).Replace(c.sentence))
			if c.code == CodeDataUnreadable && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than the sentence: %q", err)
			}
			for name := range c.files {
				if _, err := os.Stat(filepath.Join(c.cfg.DataDir, name)); err != nil {
					t.Errorf("the folder was modified: %v", err)
				}
			}
		})
	}

	t.Run("a temporary folder that is not there", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(emptyDataDir(t), "stampede-0")
		_, err := openSockets(path)
		assertCondition(t, err, CodeNoSockets, 26,
			"The folder for the sockets, "+path+", cannot be created (no such file or directory): set TMPDIR to a short folder of your own.")
	})

	t.Run("programs that are missing or too old", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Dir(emptyDataDir(t))
		missing := func(sentence string) {
			t.Helper()
			_, err := choose([]string{dir}, 0, "")
			assertCondition(t, err, CodeBinaryMissing, 12, sentence+": "+remedy)
		}
		missing("PostgreSQL 15 or newer was not found")
		fakeProgram(t, dir, "postgres", "postgres (PostgreSQL) 13.4 (Debian 13.4-1)")
		missing("PostgreSQL 15 or newer was not found") // it has no initdb
		fakeProgram(t, dir, "initdb", "initdb (PostgreSQL) 13.4")
		missing("PostgreSQL 15 or newer was not found (too old: 13.4 in " + dir + ")")
		fakeProgram(t, dir, "postgres", "postgres (PostgreSQL) 17beta1")
		writeProgram(t, filepath.Join(dir, "redis-server"), []byte("#!/bin/sh\nexit 127\n"))
		missing("Redis 7 or newer (or Valkey) was not found") // it cannot be run, as where its library is missing
		fakeProgram(t, dir, "redis-server", "Redis server v=6.2.1 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64 build=0")
		missing("Redis 7 or newer (or Valkey) was not found (too old: 6.2.1 in " + dir + ")")
		fakeProgram(t, dir, "valkey-server", "Valkey server v=8.0.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=0")
		bin, err := choose([]string{dir}, 17, "")
		if err != nil || bin.PostgresVersion != "17beta1" || bin.RedisVersion != "8.0.1" || filepath.Base(bin.Redis) != "valkey-server" {
			t.Errorf("got %+v, %v", bin, err)
		}
	})
}

func TestEveryConditionHasItsOwnExitCode(t *testing.T) {
	t.Parallel()
	owner := map[int]Code{}
	for code, c := range conditions {
		if c.exit == 0 && code != CodeStaleLock && code != CodeNotGivenBack {
			t.Errorf("%s ends the program and has exit code 0", code)
		}
		if other, taken := owner[c.exit]; taken && c.exit != 0 {
			t.Errorf("%s and %s share exit code %d", code, other, c.exit)
		}
		owner[c.exit] = code
		if !strings.HasSuffix(c.sentence, ".") {
			t.Errorf("%s: not a sentence: %q", code, c.sentence)
		}
	}
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// hideFreeSpace replaces the only number in the sentences that changes while
// the test runs.
func hideFreeSpace(err error) error {
	var e *StartError
	if errors.As(err, &e) && e.Code == CodeDiskLow {
		e.Sentence = regexp.MustCompile(`has \d+ MB free`).ReplaceAllString(e.Sentence, "has # MB free")
	}
	return err
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	_ = emptyDataDir(t) // as the tests' account
	if smallDisk == "" {
		return
	}
	dir := filepath.Join(smallDisk, "data")
	_, err := Start(t.Context(), Config{DataDir: dir, minFree: 1})
	assertCondition(t, err, CodeDiskFull, 16, "The disk that holds "+dir+" is full: free some space, or choose another folder with --data.")
}
