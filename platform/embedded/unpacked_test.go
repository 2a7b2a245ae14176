package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// debianTree makes a tree as `dpkg-deb -x` leaves it, from the programs that are installed. It returns "" where those
// are not laid out as Debian does: there nothing is ever unpacked.
func debianTree(t *testing.T, tree string) string {
	t.Helper()
	bin, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	lib := fmt.Sprintf("usr/lib/postgresql/%d", bin.PostgresMajor)
	if bin.Postgres != "/"+lib+"/bin/postgres" || bin.Redis != "/usr/bin/redis-server" {
		return ""
	}
	for _, dir := range []string{lib, fmt.Sprintf("usr/share/postgresql/%d", bin.PostgresMajor)} {
		if err := copyTree("/"+dir, filepath.Join(tree, dir)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(tree, "usr", "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	// As in Debian: a link to another program's name.
	if err := copyFile(bin.Redis, filepath.Join(tree, "usr", "bin", "redis-check-rdb")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("redis-check-rdb", filepath.Join(tree, "usr", "bin", "redis-server")); err != nil {
		t.Fatal(err)
	}
	return tree
}

// treeDirs are the program folders of a tree.
func treeDirs(tree string) []string {
	return append(newestFirst(filepath.Join(tree, "usr", "lib", "postgresql", "*", "bin")), filepath.Join(tree, "usr", "bin"))
}

func TestServersRunFromAnUnpackedTree(t *testing.T) {
	t.Parallel()
	base := filepath.Dir(emptyDataDir(t))
	tree := debianTree(t, filepath.Join(base, "tree"))
	if tree == "" {
		return
	}
	s := start(t, Config{DataDir: filepath.Join(base, "data"), BinDirs: treeDirs(tree), Throwaway: true})
	for _, program := range []string{s.Binaries.Postgres, s.Binaries.Initdb, s.Binaries.Redis} {
		if !strings.HasPrefix(program, tree+"/") {
			t.Errorf("%s is not the tree's", program)
		}
	}
	if got := query(t, s, "SELECT setting FROM pg_config WHERE name = 'SHAREDIR'"); !strings.HasPrefix(got, tree+"/") {
		t.Errorf("Postgres uses the share folder %s", got)
	}
	if err := redisClient(t, s).Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

func TestTreeThatTheAccountCannotEnterIsCopied(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // an ordinary user's servers run as that user
	}
	base := filepath.Dir(emptyDataDir(t))
	closed, cache := filepath.Join(base, "root"), filepath.Join(base, "cache")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	tree := debianTree(t, filepath.Join(closed, ".tools"))
	if tree == "" {
		return
	}
	cfg := Config{DataDir: filepath.Join(base, "data"), BinDirs: treeDirs(tree), Throwaway: true, mirrorDir: cache}
	s := start(t, cfg)
	for _, program := range []string{s.Binaries.Postgres, s.Binaries.Initdb, s.Binaries.Redis} {
		if !strings.HasPrefix(program, cache+"/tools-") {
			t.Errorf("%s is not in the copy", program)
		}
	}
	copies, err := os.ReadDir(cache)
	if err != nil || len(copies) != 1 {
		t.Errorf("expected one copy, got %v, %v", copies, err)
	}
}

func TestUnpackedProgramsFindTheirLibraries(t *testing.T) {
	t.Parallel()
	tree := t.TempDir()
	for _, dir := range []string{"usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib/postgresql/17/bin"} {
		if err := os.MkdirAll(filepath.Join(tree, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got := ChildEnv(filepath.Join(tree, "usr", "lib", "postgresql", "17", "bin", "postgres"))
	want := "LD_LIBRARY_PATH=" + strings.Join([]string{
		tree + "/usr/lib/x86_64-linux-gnu", tree + "/lib/x86_64-linux-gnu", tree + "/usr/lib", tree + "/lib",
	}, ":")
	if got[len(got)-1] != want {
		t.Errorf("got  %s\nwant %s", got[len(got)-1], want)
	}
	for _, entry := range append(ChildEnv("/usr/lib/postgresql/17/bin/postgres"), ChildEnv("/opt/homebrew/bin/redis-server")...) {
		if strings.HasPrefix(entry, "LD_LIBRARY_PATH=") {
			t.Errorf("an installed program is led to other libraries: %s", entry)
		}
	}
}

func TestToolsFolderIsSearchedOnlyIfNobodyElseWritesToIt(t *testing.T) {
	tools := t.TempDir() // no t.Parallel: the environment is changed
	t.Setenv(ToolsEnv, tools)
	for _, version := range []string{"9", "15", "17"} {
		dir := filepath.Join(tools, "usr", "lib", "postgresql", version, "bin")
		fakeProgram(t, dir, "postgres", "postgres (PostgreSQL) "+version+".1")
		fakeProgram(t, dir, "initdb", "initdb (PostgreSQL) "+version+".1")
	}
	var found []string
	for _, p := range postgresIn(unpackedDirs()) {
		if strings.HasPrefix(p.postgres, resolveExisting(tools)) {
			found = append(found, p.version)
		}
	}
	if got := strings.Join(found, " "); got != "17.1 15.1 9.1" {
		t.Errorf("found %q, want the newest first", got)
	}
	if err := os.Chmod(tools, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, dir := range unpackedDirs() {
		if strings.HasPrefix(dir, tools) {
			t.Errorf("programs that anybody may have put there would be run: %s", dir)
		}
	}
}
