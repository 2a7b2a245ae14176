package embedded

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stampede/platform/workshop/require"
)

// wrappers creates commands like those that .ci/setup creates for unpacked
// programs, in a folder of that name.
func wrappers(t *testing.T, dir string) {
	t.Helper()
	bin, err := Find()
	require.NoError(t, err)
	for name, program := range map[string]string{"postgres": bin.Postgres, "initdb": bin.Initdb, "redis-server": bin.Redis} {
		script := "#!/bin/sh\nLD_LIBRARY_PATH=/nowhere exec \"" + program + "\" \"$@\"\n"
		writeProgram(t, filepath.Join(dir, name), []byte(script))
	}
}

func TestServersRunFromWrappers(t *testing.T) {
	base := filepath.Dir(emptyDataDir(t))
	bin := filepath.Join(base, "bin")
	wrappers(t, bin)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	s := start(t, Config{DataDir: filepath.Join(base, "data"), Throwaway: true})
	for _, program := range []string{s.Binaries.Postgres, s.Binaries.Initdb, s.Binaries.Redis} {
		require.Equal(t, "the folder of "+program, filepath.Dir(program), bin)
	}
	require.NoError(t, redisClient(t, s).Ping(t.Context()).Err())
}

func TestToolsFolderIsSearchedOnlyIfNoOtherAccountWritesToIt(t *testing.T) {
	module := t.TempDir() // no t.Parallel: the working directory is changed
	bin := filepath.Join(module, ".tools", "bin")
	require.NoError(t, os.MkdirAll(bin, 0o755))
	pkg := filepath.Join(module, "a", "package")
	require.NoError(t, os.MkdirAll(pkg, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(module, "go.mod"), nil, 0o600))
	t.Chdir(pkg)
	if !slices.Contains(toolsDirs(), bin) {
		t.Errorf("%s is not searched: %v", bin, toolsDirs())
	}
	require.NoError(t, os.Chmod(bin, 0o777))
	if slices.Contains(toolsDirs(), bin) {
		t.Errorf("programs that any account may have put into %s would be run", bin)
	}
}

// TestEmptyMarkerIsRewritten: a first start killed in its first step must not
// make the folder unusable.
func TestEmptyMarkerIsRewritten(t *testing.T) {
	t.Parallel()
	dir := emptyDataDir(t)
	write(t, dir, markerName, "")
	d, err := openData(t.Context(), dir, false)
	require.NoError(t, err)
	require.NoError(t, d.prepare())
	require.NoError(t, d.release())
	if raw, err := os.ReadFile(filepath.Join(dir, markerName)); err != nil || string(raw) != "{\"format\":1}\n" {
		t.Errorf("the marker is %q, %v", raw, err)
	}
}

func TestFreshAsksFirst(t *testing.T) {
	t.Parallel()
	dir := emptyDataDir(t)
	ask := func(answer string) (string, error) {
		var out bytes.Buffer
		err := ConfirmFresh(dir, strings.NewReader(answer), &out)
		return out.String(), err
	}
	if said, err := ask(""); said != "" || err != nil {
		t.Errorf("without data: %q, %v; want neither question nor refusal", said, err)
	}
	write(t, dir, markerName, `{"format": 1}`)
	question := "Delete every sale, order and payment in " + dir + " and start over? [y/N] "
	for answer, refusal := range map[string]string{
		"y\n": "", " YES \n": "", "yes": "",
		"\n": "start without --fresh", "no\n": "start without --fresh", "certainly, please\n": "--yes",
		"": "--yes answers yes", // no terminal
	} {
		said, err := ask(answer)
		if !strings.HasPrefix(said, question) {
			t.Errorf("%q: asked %q", answer, said)
		}
		if (err == nil) != (refusal == "") || err != nil && !strings.Contains(err.Error(), refusal) {
			t.Errorf("%q: %v, want %q", answer, err, refusal)
		}
	}
}
