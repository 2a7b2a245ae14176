package bus_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"stampede/platform/base/config"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/bustest"
)

// crashDirEnv turns the test binary into a publisher on that folder.
const crashDirEnv = "STAMPEDE_BUS_TEST_CRASH_DIR"

// publishUntilKilled prints the id of each message once it is stored.
func publishUntilKilled(dir string) {
	ctx := context.Background()
	cfg := bus.Config{Settings: config.Defaults[bus.Settings]()}
	cfg.StoreDir, cfg.Log = dir, slog.New(slog.DiscardHandler)
	b, err := bus.Open(ctx, cfg)
	if err != nil {
		fmt.Println("error:", err) //nolint:forbidigo // the test reads it
		os.Exit(1)
	}
	for {
		id := ids.New()
		if err := b.Publish(ctx, "grants.1", id, make([]byte, 2000)); err != nil {
			fmt.Println("error:", err) //nolint:forbidigo // the test reads it
			os.Exit(1)
		}
		fmt.Println(id) //nolint:forbidigo // the test reads it
	}
}

func TestAcknowledgedMessagesSurviveKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), crashDirEnv+"="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	stored := make(map[ids.ID]bool)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		id, err := ids.Parse(strings.TrimSpace(lines.Text()))
		if err != nil {
			if len(stored) < 50 {
				t.Fatalf("the publisher printed %q", lines.Text())
			}
			break // the line was truncated by the kill
		}
		if stored[id] = true; len(stored) == 50 {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = child.Wait() // killed

	b := bustest.Open(t, func(c *bus.Config) { c.StoreDir = dir })
	missing := make(chan int, 100)
	consumeGrants(t, b, func(_ context.Context, batch []bus.Msg) {
		for _, m := range batch {
			delete(stored, m.ID)
			if err := m.Ack(); err != nil {
				t.Errorf("ack: %v", err)
			}
		}
		missing <- len(stored)
	})
	for left := -1; left != 0; {
		left = receive(t, 5*time.Second, fmt.Sprintf("the stored messages, %d are missing", left), missing)
	}
}
