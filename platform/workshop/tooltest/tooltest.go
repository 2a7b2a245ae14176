// Package tooltest finds the programs that some tests need beside Postgres and Redis.
package tooltest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"stampede/platform/workshop/require"
)

// Chromium finds a browser for a test of the pages: the pinned one if `make test`
// has fetched it, because with another browser or other fonts pages measure differently.
func Chromium(t testing.TB) string {
	t.Helper()
	return find(t, Pinned(t), "chromium", "chromium-browser", "google-chrome")
}

// Pinned is where .ci/setup puts the browser that has its own fonts.
func Pinned(t testing.TB) string {
	t.Helper()
	root, err := Root()
	require.NoError(t, err)
	return filepath.Join(root, ".tools", "browser", "bin", "chromium")
}

// Command finds a command that small systems lack, or that is only on root's PATH.
func Command(t testing.TB, name string) string {
	t.Helper()
	return find(t, name, "/usr/sbin/"+name)
}

// Node finds node and the folder of the packages that make TypeScript clients, which .ci/setup has fetched.
func Node(t testing.TB) (node, packages string) {
	t.Helper()
	root, err := Root()
	require.NoError(t, err)
	packages = filepath.Join(root, ".tools", "clients", "node_modules")
	find(t, filepath.Join(packages, ".bin", "openapi-typescript"))
	return find(t, "node"), packages
}

// Root is the nearest folder above with a go.mod.
func Root() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("no folder above has a go.mod")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// find returns the first installed program. Without any, the test is skipped on
// a developer's machine and fails with CI=true, where a skipped test would look
// passed.
func find(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		if found, err := exec.LookPath(name); err == nil {
			return found
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("this test needs %s, and CI must have it", filepath.Base(names[0]))
	}
	t.Skipf("this test needs %s: `make test` fetches it, or install the package of that name", filepath.Base(names[0]))
	return ""
}
