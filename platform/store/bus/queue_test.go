package bus_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stampede/platform/store/bus"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/require"
)

func TestGrantsArriveInBatches(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t)
	const messages = 150
	for i := range messages {
		mustPublish(t, b, "grants.1", strconv.Itoa(i))
	}
	sizes := make(chan int, messages)
	var next atomic.Int64
	consumeGrants(t, b, func(ctx context.Context, batch []bus.Msg) {
		acking(t, func(m bus.Msg) {
			if want := strconv.FormatInt(next.Add(1)-1, 10); string(m.Data) != want {
				t.Errorf("got message %s, want %s: the order of the stream", m.Data, want)
			}
			if m.ID.IsZero() || m.Attempt != 1 {
				t.Errorf("message %s: id %s, attempt %d", m.Data, m.ID, m.Attempt)
			}
		})(ctx, batch)
		sizes <- len(batch)
	})
	for _, want := range []int{64, 64, 22} {
		require.Equal(t, "messages of a batch", receive(t, 5*time.Second, "a batch", sizes), want)
	}
	drained(t, b)
}

// A batch of which the handler acknowledges nothing comes again: after the ack wait, and
// at once if the handler panicked.
func TestAbandonedGrantsAreRedelivered(t *testing.T) {
	t.Parallel()
	for name, abandon := range map[string]func(){"returns": func() {}, "panics": func() { panic("first time") }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bustest.Open(t, func(c *bus.Config) {
				if name == "returns" { // else far longer than the test waits
					c.Queues[0].AckWait = 300 * time.Millisecond
				}
			})
			id := mustPublish(t, b, "grants.1", "x")
			seen := make(chan bus.Msg, 10)
			consumeGrants(t, b, func(ctx context.Context, batch []bus.Msg) {
				if seen <- batch[0]; batch[0].Attempt == 1 {
					abandon()
					return
				}
				acking(t, func(bus.Msg) {})(ctx, batch)
			})
			for attempt := 1; attempt <= 2; attempt++ {
				m := receive(t, 5*time.Second, "the message", seen)
				require.Equal(t, "delivery", fmt.Sprint(m.ID, m.Attempt), fmt.Sprint(id, attempt))
			}
		})
	}
}

func TestSlowHandlerKeepsItsGrants(t *testing.T) {
	t.Parallel()
	t.Run("while it runs", func(t *testing.T) { t.Parallel(); slowGrants(t, false) })
	t.Run("after it returned", func(t *testing.T) { t.Parallel(); slowGrants(t, true) })
}

func slowGrants(t *testing.T, keep bool) {
	t.Helper()
	const wait = time.Second
	b := bustest.Open(t, func(c *bus.Config) { c.Queues[0].AckWait = wait })
	mustPublish(t, b, "grants.1", "x")
	var settling sync.WaitGroup
	started, finish := make(chan struct{}, 1), make(chan struct{})
	handle := func(_ context.Context, batch []bus.Msg) {
		for _, m := range batch {
			if m.Attempt > 1 {
				t.Error("the message went to a second worker while the first was handling it")
			}
			started <- struct{}{}
			settle := func() {
				<-finish
				if err := m.Ack(); err != nil {
					t.Errorf("ack: %v", err)
				}
			}
			if !keep {
				settle()
				continue
			}
			m.Keep()
			settling.Go(settle)
		}
	}
	consumeGrants(t, b, handle)
	consumeGrants(t, b, handle)
	receive(t, 5*time.Second, "the message", started)
	select {
	case <-started:
		t.Error("delivered twice")
	case <-time.After(2 * wait):
	}
	close(finish)
	settling.Wait()
	drained(t, b)
}

func TestConsumeFinishesItsBatch(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t)
	mustPublish(t, b, "grants.1", "x")
	started, finish := make(chan struct{}), make(chan struct{})
	var late atomic.Bool
	stop := consumeGrants(t, b, func(ctx context.Context, batch []bus.Msg) {
		close(started)
		<-finish
		if ctx.Err() != nil {
			late.Store(true)
		}
		if err := batch[0].Ack(); err != nil {
			t.Errorf("ack: %v", err)
		}
	})
	receive(t, 5*time.Second, "the batch", started)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	select {
	case <-stopped:
		t.Fatal("stopped in the middle of a batch")
	case <-time.After(50 * time.Millisecond):
	}
	close(finish)
	receive(t, 5*time.Second, "the end of the consumer", stopped)
	require.Equal(t, "the batch's context ended with the consumer's", late.Load(), false)
}

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
	require.Equal(t, "the first instance differs from none", strings.Contains(log, says), false)
	if _, log = open(6 * time.Second); strings.Contains(log, says) {
		t.Error("no other instance writes orders: the setting was changed")
	}
	consumeGrants(t, first, func(context.Context, []bus.Msg) {})
	deadline := 6 * time.Second
	eventually(t, 5*time.Second, "the log to name the instance that differs", func() bool {
		deadline += time.Second // than the last start, which was perhaps before the writer's
		_, log = open(deadline)
		return strings.Contains(log, says) && strings.Contains(log, "--publish-deadline")
	})
}
