package shop

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"stampede/platform/workshop/require"
	"stampede/platform/workshop/tooltest"
)

// ReleasedCommit is the commit of the last release. A test compares it with CHANGELOG.md, with the release's API document
// and with its migrations, so that a release cannot leave it behind.
const ReleasedCommit = "acea6082bc51b9bdce45b29033ec6c2c28100e8e"

// releasedName is the file of the last release's program in .tools/test: another release is another file.
const releasedName = "stampede-" + ReleasedCommit

// errNoHistory means that the commit of the last release is not here. It is not fetched: tests use what is there.
var errNoHistory = errors.New("the last release is built from its commit " + ReleasedCommit[:8] +
	", which is not here: clone the repository with its history, without --depth and not from an archive")

// BuildReleased builds the program of the last release, unless an earlier run has.
func BuildReleased() error {
	return holding(releasedName, func(_, path string) error {
		if _, missing := os.Stat(path); missing == nil {
			return nil
		}
		if _, err := ReleasedFile("main.go"); err != nil {
			return err
		}
		source, err := os.MkdirTemp("", "stampede-released-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(source) }()
		index := filepath.Join(source, ".index") // of its own: the repository's stays as it is
		for _, args := range [][]string{
			{"read-tree", ReleasedCommit}, {"checkout-index", "--all", "--prefix=" + source + "/"},
		} {
			if _, err := git([]string{"GIT_INDEX_FILE=" + index}, args...); err != nil {
				return err
			}
		}
		command, err := imageCommand(source)
		if err != nil {
			return err
		}
		return buildAt(path, source, command)
	})
}

// git runs git in the repository, with more variables. It fetches nothing, not even in a clone that has left
// objects at its server.
func git(env []string, args ...string) ([]byte, error) {
	root, err := tooltest.Root()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("git", args...) //nolint:gosec,noctx // reads objects, and ends by itself
	cmd.Dir = root
	cmd.Env = append(append(os.Environ(), "GIT_NO_LAZY_FETCH=1"), env...)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(string(exit.Stderr)))
	}
	return out, err
}

// ReleasedFile returns a file, or the list of a folder, as the last release has it.
func ReleasedFile(name string) ([]byte, error) {
	content, err := git(nil, "show", ReleasedCommit+":"+name)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", errNoHistory, err)
	}
	return content, nil
}

var releasedProgram = sync.OnceValues(func() (string, error) {
	if err := BuildReleased(); err != nil {
		return "", err
	}
	root, err := tooltest.Root()
	return filepath.Join(root, ".tools", "test", releasedName), err
})

// Released returns the path of the last release's program. Where its commit is not in the repository, the test is skipped.
func Released(t testing.TB) string {
	t.Helper()
	name, err := releasedProgram()
	if errors.Is(err, errNoHistory) {
		t.Skip(err)
	}
	require.NoError(t, err)
	return name
}
