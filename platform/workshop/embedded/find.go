package embedded

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// minPostgresMajor is the oldest release with the features that the schema
	// and the tests use (MERGE, NULLS NOT DISTINCT, CREATE DATABASE …
	// STRATEGY).
	minPostgresMajor = 15
	// minRedisMajor is the oldest release with script flags such as allow-oom. Valkey began at 7.2 and always has them.
	minRedisMajor = 7
	// versionTimeout bounds one `--version` call: usually a few milliseconds,
	// more on a cold or busy disk.
	versionTimeout = 20 * time.Second
)

// Binaries are the programs to run and their versions.
type Binaries struct {
	// Postgres and Initdb are the absolute paths of programs of the same release.
	Postgres, Initdb string
	// Redis is the absolute path of redis-server or valkey-server.
	Redis string
	// PostgresVersion and RedisVersion are as the programs print them, for example "15.20" and "7.0.15".
	PostgresVersion, RedisVersion string
}

// installed is one Postgres, Redis or Valkey of any version.
type installed struct {
	path, version string
	major         int
}

// kind is one of the two programs.
type kind struct {
	names   []string       // of its file
	version *regexp.Regexp // matches the version and in it the major
}

var (
	postgresKind = kind{[]string{"postgres"}, regexp.MustCompile(`^postgres \(PostgreSQL\) ((\d+)[^\s(]*)`)}
	redisKind    = kind{[]string{"redis-server", "valkey-server"}, regexp.MustCompile(`^(?:Redis|Valkey) server v=((\d+)\S*)`)}
)

// Find looks for PostgreSQL 15 or newer and Redis 7 or newer (or Valkey): on PATH, in Debian's
// /usr/lib/postgresql/*/bin, in Homebrew's keg folders, and where .ci/setup
// unpacks packages. The first that is new enough wins. Find runs each candidate
// to get its version, so a program that cannot be run is skipped. The error is
// a [StartError] with CodeBinaryMissing.
func Find() (Binaries, error) { return choose(searchDirs(), 0, "") }

// choose takes the first Postgres and Redis in dirs that are new enough. A wanted
// major above 0 is that of existing data in dataDir, which only that release can
// read.
func choose(dirs []string, wanted int, dataDir string) (Binaries, error) {
	pgs := slices.DeleteFunc(postgresKind.in(dirs), func(p installed) bool { return initdbOf(p.path) == "" })
	if other := versions(pgs); wanted != 0 {
		pgs = slices.DeleteFunc(pgs, func(p installed) bool { return p.major != wanted })
		if len(pgs) == 0 && len(other) > 0 {
			return Binaries{}, fail(CodeMajorMismatch, nil, dataDir, wanted, strings.Join(other, ", "), wanted)
		}
	}
	pg, err := newEnough(pgs, fmt.Sprintf("PostgreSQL %d or newer", minPostgresMajor), minPostgresMajor)
	if err != nil {
		return Binaries{}, err
	}
	rd, err := newEnough(redisKind.in(dirs), fmt.Sprintf("Redis %d or newer (or Valkey)", minRedisMajor), minRedisMajor)
	return Binaries{
		Postgres: pg.path, Initdb: initdbOf(pg.path), PostgresVersion: pg.version, Redis: rd.path, RedisVersion: rd.version,
	}, err
}

// newEnough returns the first program of at least that release.
func newEnough(found []installed, what string, least int) (installed, error) {
	var old []string
	for _, p := range found {
		if p.major >= least {
			return p, nil
		}
		old = append(old, p.version+" in "+filepath.Dir(p.path))
	}
	tooOld := ""
	if len(old) > 0 {
		tooOld = " (too old: " + strings.Join(old, ", ") + ")"
	}
	return installed{}, fail(CodeBinaryMissing, nil, what, tooOld)
}

func versions(found []installed) (all []string) {
	for _, p := range found {
		all = append(all, p.version)
	}
	return all
}

// searchDirs lists the folders that may hold the programs, best first, each once.
func searchDirs() []string {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	// Debian and Ubuntu keep each release's programs off the PATH.
	dirs = append(dirs, newestFirst("/usr/lib/postgresql/*/bin")...)
	// A versioned Homebrew formula is "keg-only": installed, but linked nowhere. Apple silicon and Intel differ.
	for _, prefix := range []string{"/opt/homebrew", "/usr/local"} {
		for _, keg := range []string{"postgresql@*", "postgresql", "redis*", "valkey*"} {
			dirs = append(dirs, newestFirst(prefix+"/opt/"+keg+"/bin")...)
		}
		dirs = append(dirs, prefix+"/bin")
	}
	dirs = append(dirs, toolsDirs()...)

	seen := map[string]bool{}
	return slices.DeleteFunc(dirs, func(dir string) bool {
		// A relative entry names a different program in each working directory:
		// never run those.
		resolved := resolveExisting(dir)
		drop := !filepath.IsAbs(dir) || seen[resolved]
		seen[resolved] = true
		return drop
	})
}

// newestFirst expands a pattern. The releases that can be used have two digits, so their
// names sort as their numbers do.
func newestFirst(pattern string) []string {
	found, _ := filepath.Glob(pattern) // the patterns are constants; only a malformed one gives an error
	slices.Reverse(found)
	return found
}

// in lists the programs in dirs that can be run, in their order. The name in the
// folder is kept: Debian's redis-server is a link to redis-check-rdb, one program
// that acts on the name it was called by.
func (k kind) in(dirs []string) (found []installed) {
	for _, dir := range dirs {
		for _, name := range k.names {
			path := filepath.Join(dir, name)
			if !executable(path) {
				continue
			}
			if version, major := versionOf(path, k.version); major > 0 {
				found = append(found, installed{path: path, version: version, major: major})
			}
		}
	}
	return found
}

// Tool returns the path of another program of the same Postgres release, such as pg_dump, "" if it is not installed.
func (b Binaries) Tool(name string) string { return beside(b.Postgres, name) }

func initdbOf(postgres string) string { return beside(postgres, "initdb") }

// beside returns a program of the same release as a postgres, or "". PATH may
// contain a link to postgres only; the others are then beside the real file.
func beside(postgres, name string) string {
	resolved, err := filepath.EvalSymlinks(postgres)
	if err != nil {
		return ""
	}
	for _, dir := range []string{filepath.Dir(resolved), filepath.Dir(postgres)} {
		if path := filepath.Join(dir, name); executable(path) {
			return path
		}
	}
	return ""
}

func executable(path string) bool {
	_, err := exec.LookPath(path) // which has a slash
	return err == nil
}

// versionOf runs `path --version` and takes the version from its first line;
// major is 0 if it cannot be run or prints something else.
//
//nolint:contextcheck // the call has its own limit, versionTimeout
func versionOf(path string, pattern *regexp.Regexp) (version string, major int) {
	ctx, cancel := context.WithTimeout(context.Background(), versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = childEnv()
	cmd.WaitDelay = time.Second // its own child may keep the output open
	out, err := cmd.Output()
	if err != nil {
		return "", 0
	}
	match := pattern.FindStringSubmatch(string(out))
	if match == nil {
		return "", 0
	}
	major, err = strconv.Atoi(match[2])
	if err != nil {
		return "", 0
	}
	return match[1], major
}

// sharedTools is where .ci/setup puts the servers that it unpacks for root if
// no other account can enter the checkout, for example below /root: root's
// servers run as another account.
const sharedTools = "/var/cache/stampede/bin"

// toolsDirs are the folders with the commands that .ci/setup creates for
// unpacked packages. They are beside the program that it builds, in the
// .tools/bin of the module that contains the working directory (tests run in
// their package's folder), or in sharedTools.
func toolsDirs() []string {
	var dirs []string
	if self, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Dir(self))
	}
	if wd, err := os.Getwd(); err == nil {
		dirs = append(dirs, filepath.Join(moduleAround(wd), ".tools", "bin"))
	}
	dirs = append(dirs, sharedTools)
	return slices.DeleteFunc(dirs, func(dir string) bool { return !trusted(dir) })
}

// moduleAround returns the nearest folder at or above dir with a go.mod, or "".
func moduleAround(dir string) string {
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// trusted refuses folders that an account other than this user or root can
// write to: programs in them are executed.
func trusted(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o002 != 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}
