package shop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"stampede/platform/base/race"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/tooltest"
)

// atOnce is how many tests of a package run in parallel on any machine. They mostly wait, for a server to start, an
// opening or an election, so one per processor would leave two processors half idle; and each uses up to fifty
// connections of the Postgres that all packages share.
const atOnce = 4

// Main is the body of a TestMain: the tests run in the module's root, where they find files by the names that the
// repository gives them, and then the checks, if the tests passed.
func Main(m *testing.M, checks ...func() error) {
	pgtest.Parallel(atOnce)
	root, err := tooltest.Root()
	if err == nil {
		err = os.Chdir(root)
	}
	// A test run by root leaves no account behind.
	if os.Geteuid() == 0 && os.Getenv("STAMPEDE_RUN_AS") == "" {
		err = errors.Join(err, os.Setenv("STAMPEDE_RUN_AS", "daemon"))
	}
	if err != nil {
		panic(err)
	}
	pgtest.Main(m, checks...)
}

// BuiltVariable is set by `make test`, which has built both programs before any test. Otherwise each package builds what
// it starts.
const BuiltVariable = "STAMPEDE_TEST_BUILT"

// Program returns the path of the program that tests start, which looks for data races if they do. It opens the file, so
// that `go test` repeats the package's tests when the program has changed: it has no other way to know.
func Program(t testing.TB) string {
	t.Helper()
	return pathOf(t, program)
}

// ImageProgram returns the path of the program as the Dockerfile builds it, for what the race detector would distort.
func ImageProgram(t testing.TB) string {
	t.Helper()
	return pathOf(t, imageProgram)
}

func pathOf(t testing.TB, built func() (string, error)) string {
	t.Helper()
	name, err := built()
	require.NoError(t, err)
	return name
}

var (
	program      = sync.OnceValues(func() (string, error) { return found(raceName, func() error { return Build(race.Enabled) }) })
	imageProgram = sync.OnceValues(func() (string, error) { return found(imageName, BuildImage) })
)

// The files of the programs in .tools/test.
const (
	raceName  = "stampede"
	imageName = "stampede-image"
)

// found builds a program unless make test has, and returns its path after opening it.
func found(name string, build func() error) (string, error) {
	if os.Getenv(BuiltVariable) == "" {
		if err := build(); err != nil {
			return "", err
		}
	}
	root, err := tooltest.Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, ".tools", "test", name)
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	return path, f.Close()
}

// Build builds the program that tests start.
func Build(race bool) error {
	// Without symbols it links faster, and with the commit in it every commit would make another program. Compiled as
	// make test compiles the tests, so that both use the same objects.
	command := `go build -trimpath -buildvcs=false -gcflags=all=-dwarf=false -ldflags "-s -w"`
	if race {
		command += " -race"
	}
	return holding(raceName, func(root, path string) error { return buildAt(path, root, command) })
}

// imageBuild finds the command with which the Dockerfile builds the program.
var imageBuild = regexp.MustCompile(`(?m)^RUN (.*\bgo build\b.*) -o /out/stampede \.$`)

// imageCommand returns the command with which the Dockerfile in a folder builds the program.
func imageCommand(dir string) (string, error) {
	dockerfile, err := os.ReadFile(filepath.Join(dir, "Dockerfile")) //nolint:gosec // the module's own
	if err != nil {
		return "", err
	}
	command := imageBuild.FindSubmatch(dockerfile)
	if command == nil {
		return "", errors.New("the Dockerfile does not build /out/stampede")
	}
	return string(command[1]), nil
}

// BuildImage builds the program with the image's build command, so that what tests find is valid for the image.
func BuildImage() error {
	return holding(imageName, func(root, path string) error {
		command, err := imageCommand(root)
		if err != nil {
			return err
		}
		return buildAt(path, root, command)
	})
}

// holding works on a file in .tools/test that no other process builds meanwhile: several packages may when `go test` was
// called by hand.
func holding(name string, work func(root, path string) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("build the program for the tests: %w", err)
		}
	}()
	root, err := tooltest.Root()
	if err != nil {
		return err
	}
	dir := filepath.Join(root, ".tools", "test")
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // root's tests run the program as another account too
		return err
	}
	name = filepath.Join(dir, name)
	lock, err := os.OpenFile(name+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // ends the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	return work(root, name)
}

// buildAt runs a command that builds the program of a source, and replaces the file only if the bytes differ: the results
// of tests that have passed with the same program stay valid.
func buildAt(path, source, command string) error {
	// It runs in a shell, as in the image; only the output path differs. go links again only what has changed.
	cmd := exec.Command("sh", "-c", command+` -o "$OUT" .`) //nolint:gosec,noctx // the commands above; they end by themselves
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "OUT="+path+".built", "TARGETOS="+runtime.GOOS, "TARGETARCH="+runtime.GOARCH, "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	made, err := os.ReadFile(path + ".built") //nolint:gosec // written above
	if err != nil {
		return err
	}
	if used, err := os.ReadFile(path); err == nil && bytes.Equal(used, made) { //nolint:gosec // likewise
		return nil
	}
	// Replaced, not overwritten: another run may be using the old one.
	if err := os.WriteFile(path+".new", made, 0o755); err != nil { //nolint:gosec // an executable
		return err
	}
	return os.Rename(path+".new", path)
}

// Run runs a command of the program and returns its exit code, -1 if it did not start.
func Run(ctx context.Context, args []string, out, errs io.Writer) int {
	name, err := program()
	if err != nil {
		_, _ = fmt.Fprintln(errs, err)
		return -1
	}
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // the program under test
	cmd.Stdout, cmd.Stderr = out, errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		_, _ = fmt.Fprintln(errs, err)
		return -1
	}
	return cmd.ProcessState.ExitCode()
}

// Command runs a command of the program that must exit with a code, and returns its output.
func Command(t *testing.T, code int, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if got := Run(t.Context(), args, &out, &errs); got != code {
		t.Fatalf("%s exited with %d, want %d:\n%s%s", args, got, code, &out, &errs)
	}
	return out.String()
}

// Refused returns config's errors for settings given in addition to the required ones.
func Refused(t *testing.T, args ...string) string {
	t.Helper()
	var errs bytes.Buffer
	code := Run(t.Context(), append([]string{"config", "--database-url=postgres://h/d", "--redis-url=redis://h:1", "--signing-key=" + Key}, args...), io.Discard, &errs)
	if (code == 0) != (errs.Len() == 0) {
		t.Errorf("%s: exit %d, printed %q", args, code, errs.String())
	}
	return errs.String()
}

// stopWithin is three times the 10 s within which the program promises to stop.
const stopWithin = 30 * time.Second

// launch starts a command of the program in its own process group and ends it with the test, which fails if the program
// printed a data race. The channel closes when the process has ended.
func launch(t *testing.T, cmd *exec.Cmd, printed ...fmt.Stringer) <-chan struct{} {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-ended:
		case <-time.After(stopWithin):
			_ = cmd.Process.Kill()
			<-ended
		}
		var text strings.Builder
		for _, p := range printed {
			text.WriteString(p.String())
		}
		if strings.Contains(text.String(), "WARNING: DATA RACE") {
			t.Error("the program has a data race")
		}
		if t.Failed() {
			t.Logf("the process %q printed:\n%s", cmd.Args[1:], text.String())
		}
	})
	return ended
}
