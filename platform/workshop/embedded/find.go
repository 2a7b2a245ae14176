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
	// PostgresMajor is the release whose data this Postgres reads.
	PostgresMajor int
}

// postgresInstall is one installed Postgres of any version.
type postgresInstall struct {
	postgres, initdb, version string
	major                     int
}

// redisInstall is one installed Redis or Valkey of any version.
type redisInstall struct {
	path, version string
	major         int
}

// Find looks for PostgreSQL 15 or newer and Redis 7 or newer (or Valkey): on PATH, in Debian's
// /usr/lib/postgresql/*/bin, in Homebrew's keg folders, and where .ci/setup
// unpacks packages. The first that is new enough wins. Find runs each candidate
// to get its version, so a program that cannot be run is skipped. The error is
// a [StartError] with CodeBinaryMissing.
func Find() (Binaries, error) {
	dirs := searchDirs(nil)
	return choose(postgresIn(dirs), redisIn(dirs), 0, "")
}

// choose takes the first Postgres and Redis that are new enough. A wanted major
// above 0 is that of existing data in dataDir, which only that release can
// read.
func choose(pgs []postgresInstall, rds []redisInstall, wanted int, dataDir string) (Binaries, error) {
	var bin Binaries
	var other []string
	for _, p := range pgs {
		if p.major < minPostgresMajor {
			other = append(other, fmt.Sprintf("%s in %s", p.version, filepath.Dir(p.postgres)))
			continue
		}
		if wanted != 0 && p.major != wanted {
			other = append(other, p.version)
			continue
		}
		bin.Postgres, bin.Initdb, bin.PostgresVersion, bin.PostgresMajor = p.postgres, p.initdb, p.version, p.major
		break
	}
	if bin.Postgres == "" {
		if wanted != 0 && len(other) > 0 {
			return Binaries{}, fail(CodeMajorMismatch, nil, dataDir, wanted, strings.Join(other, ", "), wanted)
		}
		return Binaries{}, fail(CodeBinaryMissing, nil, fmt.Sprintf("PostgreSQL %d or newer", minPostgresMajor), tooOld(other))
	}
	other = nil
	for _, r := range rds {
		if r.major < minRedisMajor {
			other = append(other, fmt.Sprintf("%s in %s", r.version, filepath.Dir(r.path)))
			continue
		}
		bin.Redis, bin.RedisVersion = r.path, r.version
		break
	}
	if bin.Redis == "" {
		return Binaries{}, fail(CodeBinaryMissing, nil, fmt.Sprintf("Redis %d or newer (or Valkey)", minRedisMajor), tooOld(other))
	}
	return bin, nil
}

// tooOld lists the unusable versions that were found.
func tooOld(found []string) string {
	if len(found) == 0 {
		return ""
	}
	return " (too old: " + strings.Join(found, ", ") + ")"
}

// searchDirs lists the folders that may hold the programs, best first, each once.
func searchDirs(extra []string) []string {
	dirs := slices.Clone(extra)
	dirs = append(dirs, filepath.SplitList(os.Getenv("PATH"))...)
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
		drop := !filepath.IsAbs(dir) || seen[dir]
		seen[dir] = true
		return drop
	})
}

// newestFirst expands a pattern and orders the matches by the last number in them, highest first.
func newestFirst(pattern string) []string {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return nil // the patterns are constants; only a malformed one gives an error
	}
	slices.SortStableFunc(found, func(a, b string) int { return lastNumber(b) - lastNumber(a) })
	return found
}

var digits = regexp.MustCompile(`\d+`)

func lastNumber(s string) int {
	all := digits.FindAllString(s, -1)
	if len(all) == 0 {
		return 0
	}
	n, err := strconv.Atoi(all[len(all)-1])
	if err != nil {
		return 0 // more digits than an int holds: no release number
	}
	return n
}

// postgresIn lists the Postgres installations in dirs, in their order.
func postgresIn(dirs []string) []postgresInstall {
	var found []postgresInstall
	seen := map[string]bool{}
	for _, dir := range dirs {
		path := program(dir, "postgres")
		if path == "" || seen[path] {
			continue
		}
		seen[path] = true
		// PATH may contain a link to postgres only; initdb is then beside the
		// real file.
		initdb := program(filepath.Dir(path), "initdb")
		if initdb == "" {
			initdb = program(dir, "initdb")
		}
		version, major := versionOf(path, postgresVersion)
		if initdb == "" || major == 0 {
			continue
		}
		found = append(found, postgresInstall{postgres: path, initdb: initdb, version: version, major: major})
	}
	return found
}

// redisIn lists the Redis and Valkey installations in dirs, in their order.
func redisIn(dirs []string) []redisInstall {
	var found []redisInstall
	seen := map[string]bool{}
	for _, dir := range dirs {
		dir = resolveExisting(dir)
		for _, name := range []string{"redis-server", "valkey-server"} {
			// The name must be kept: Debian's redis-server is a link to
			// redis-check-rdb, one program that acts on the name it was called
			// by.
			path := filepath.Join(dir, name)
			if !executable(path) || seen[path] {
				continue
			}
			seen[path] = true
			if version, major := versionOf(path, redisVersion); major > 0 {
				found = append(found, redisInstall{path: path, version: version, major: major})
			}
		}
	}
	return found
}

// program returns the real path of an executable file in dir, or "".
func program(dir, name string) string {
	path, err := filepath.EvalSymlinks(filepath.Join(dir, name))
	if err != nil || !executable(path) {
		return ""
	}
	return path
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

var (
	postgresVersion = regexp.MustCompile(`^postgres \(PostgreSQL\) (\d+)[^\s(]*`)
	redisVersion    = regexp.MustCompile(`^(?:Redis|Valkey) server v=(\d+)\S*`)
)

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
	major, err = strconv.Atoi(match[1])
	if err != nil {
		return "", 0
	}
	version = strings.Fields(match[0])[len(strings.Fields(match[0]))-1]
	return strings.TrimPrefix(version, "v="), major
}
