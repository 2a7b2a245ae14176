// Package bustest gives each test a real, private bus.
package bustest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"stampede/platform/base/config"
	"stampede/platform/store/bus"
)

// closeTimeout is generous: a loaded machine must not turn a passed test into a
// failed one.
const closeTimeout = 20 * time.Second

// Open starts an embedded bus in a folder of the test, with small streams, and
// closes it when the test ends. Each change may alter the settings before the
// start.
func Open(t testing.TB, change ...func(*bus.Config)) *bus.Bus {
	t.Helper()
	cfg := bus.Config{Settings: config.Defaults[bus.Settings]()}
	cfg.StoreDir = t.TempDir()
	cfg.GrantsMaxMiB, cfg.EventsMaxMiB = 64, 64
	cfg.Log = slog.New(slog.DiscardHandler)
	for _, f := range change {
		f(&cfg)
	}
	b, err := bus.Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("open bus: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Errorf("close bus: %v", err)
		}
	})
	return b
}
