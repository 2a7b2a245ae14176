package cli

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stampede/platform/base/app"
)

// TestStreamsAreFoundFromAnywhere: the default folder of the embedded NATS is the same
// wherever the server is started, unless an earlier version left one there; and it serves
// one server at a time.
func TestStreamsAreFoundFromAnywhere(t *testing.T) {
	at := func(given string) (string, bool) {
		t.Helper()
		dir, former, err := streamsFolder(given)
		if err != nil || !filepath.IsAbs(dir) {
			t.Fatalf("%q: %q, %v", given, dir, err)
		}
		return dir, former
	}
	t.Chdir(t.TempDir())
	first, _ := at("")
	t.Chdir(t.TempDir())
	if second, former := at(""); second != first || former {
		t.Errorf("%s here, %s there (%v)", first, second, former)
	}
	if err := os.MkdirAll(filepath.Join("data", "nats"), 0o700); err != nil {
		t.Fatal(err)
	}
	here, former := at("")
	if !former || !strings.HasSuffix(here, filepath.Join("data", "nats")) || here == first {
		t.Errorf("a folder from before: %s, %v", here, former)
	}
	if given, former := at("nats"); former || given == here {
		t.Errorf("a setting: %s, %v", given, former)
	}
	a := app.New(slog.New(slog.DiscardHandler))
	if err := holdFolder(a, here); err != nil {
		t.Fatal(err)
	}
	if err := holdFolder(a, here); err == nil || !strings.Contains(err.Error(), "--nats-dir") {
		t.Errorf("a second server: %v", err)
	}
}
