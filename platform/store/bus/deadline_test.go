package bus_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"stampede/platform/store/bus"
	"stampede/platform/workshop/bustest"
)

// lockedBuffer is a log that other goroutines write to while it is read.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestDifferentPublishDeadlinesAreLogged(t *testing.T) {
	t.Parallel()
	o := bustest.StartServer(t)
	open := func(deadline time.Duration) (*bus.Bus, string) {
		var log lockedBuffer
		b := bustest.Open(t, bustest.On(o.URL), func(c *bus.Config) {
			c.PublishDeadline, c.Log = deadline, slog.New(slog.NewTextHandler(&log, nil))
		})
		return b, log.String() // what the start has logged
	}
	const says = "different publish deadlines"
	first, log := open(5 * time.Second)
	if strings.Contains(log, says) {
		t.Error("the first instance differs from none")
	}
	if _, log = open(6 * time.Second); strings.Contains(log, says) {
		t.Error("no other instance writes orders: the setting was changed")
	}
	consumeGrants(t, first, func(context.Context, []bus.Msg) {})
	deadline := 6 * time.Second
	eventually(t, 5*time.Second, "an instance that differs is told", func() bool {
		deadline += time.Second // than the last start, which was perhaps before the writer's
		_, log = open(deadline)
		return strings.Contains(log, says) && strings.Contains(log, "--publish-deadline")
	})
}
