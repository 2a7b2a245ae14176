package embedded

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// seedFolder contains data that was started and stopped once. Most tests begin
// with a copy of it, because creating a cluster takes ten times as long as
// starting one.
var seedFolder string

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperEnv); dir != "" {
		helper(dir)
		return
	}
	var err error
	if seedFolder, err = os.MkdirTemp("", "stampede-seed-"); err != nil {
		panic(err)
	}
	if err := os.Chmod(seedFolder, 0o755); err != nil { // the servers' account must be able to enter
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(seedFolder)
		os.Exit(code)
	}))
}

var seed = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(resolveExisting(seedFolder), "data")
	s, err := Start(context.Background(), Config{DataDir: dir, Throwaway: true})
	if err != nil {
		return "", err
	}
	return dir, s.Stop(context.Background())
})

// usedDataDir returns a data folder of an earlier start that was stopped cleanly.
func usedDataDir(t *testing.T) string {
	t.Helper()
	dir := emptyDataDir(t)
	copySeed(t, dir)
	return dir
}

func copySeed(t *testing.T, dir string) {
	t.Helper()
	from, err := seed()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", from, dir).CombinedOutput(); err != nil {
		t.Fatalf("copy: %v: %s", err, out)
	}
}
