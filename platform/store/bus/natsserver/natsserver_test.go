package natsserver_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/store/bus/natsserver"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/require"
)

// TestStaleIndexLogsNoWarning: after a kill the server finds a stream's index
// older than its messages. It repairs that itself and logs one line.
func TestStaleIndexLogsNoWarning(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := bustest.Open(t, bustest.In(dir))
	require.NoError(t, b.Publish(t.Context(), "grants.1", ids.New(), []byte("before")))
	require.NoError(t, b.Close(t.Context()))
	index, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "GRANTS", "msgs", "index.db"))
	require.Equal(t, "indexes", fmt.Sprint(len(index), err), "1 <nil>")
	require.NoError(t, os.WriteFile(index[0], bytes.Repeat([]byte("x"), 64), 0o600))
	var said bytes.Buffer
	again := bustest.Open(t, func(c *bus.Config) {
		c.Embedded = natsserver.New(dir, slog.New(slog.NewTextHandler(&said, nil))) // INFO and above
	})
	require.NoError(t, again.Close(t.Context()))
	if text := said.String(); strings.Contains(text, "level=WARN") || strings.Count(text, "embedded NATS rebuilt stream indexes") != 1 || !strings.Contains(text, "streams=[GRANTS]") {
		t.Errorf("the log has\n%s", text)
	}
}
