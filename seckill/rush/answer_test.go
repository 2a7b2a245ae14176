package rush

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/require"
)

// The texts that shoppers read are part of the API: a change shows in the
// golden file. With STAMPEDE_UPDATE_GOLDEN=1 the test rewrites the file.
func TestRefusalsGolden(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for o := outQueued; o < outcomes; o++ {
		r := &ready[o]
		if r.status == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s: %d, Retry-After %v\n", o, r.status, r.retry)
		for _, lang := range []httpx.Language{httpx.English, httpx.Chinese} {
			b.Write(r.body[lang])
		}
	}
	file := filepath.Join("testdata", "refusals.txt")
	if os.Getenv("STAMPEDE_UPDATE_GOLDEN") == "1" {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Fatal(d)
	}
}

func TestPollAfterGrowsWithTheLineWithinBounds(t *testing.T) {
	t.Parallel()
	for position, want := range map[int64]time.Duration{
		0: 200 * time.Millisecond, 1000: 250 * time.Millisecond, 20_000: 1200 * time.Millisecond, 1 << 60: 5 * time.Second,
	} {
		if got := pollAfter(position); got != want {
			t.Errorf("%d: %v, want %v", position, got, want)
		}
	}
}
