package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/platform/base/config"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/queue"
	"stampede/seckill/seckillevent"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

func open(t *testing.T, b *bus.Bus) *queue.Queue {
	t.Helper()
	return queue.New(b, seckilltest.NewListing(t).Catalogue, slog.New(slog.DiscardHandler), prometheus.NewRegistry(), queue.Impatient)
}

func publish(t *testing.T, q *queue.Queue, item int64, data string) {
	t.Helper()
	require.NoError(t, q.Publish(t.Context(), &seckillevent.Batch{ID: ids.New(), ItemID: item}, []byte(data)))
}

// consume acknowledges what got takes until stop.
func consume(t *testing.T, q *queue.Queue, got chan<- string) (stop func()) {
	t.Helper()
	return pgtest.Work(t, func(ctx context.Context) error {
		return q.Consume(ctx, func(_ context.Context, batch []bus.Msg) {
			for _, m := range batch {
				got <- string(m.Data)
				if err := m.Ack(); err != nil {
					t.Logf("ack: %v", err)
				}
			}
		})
	})
}

// The kit's description, which modules use that must not import this package, is small
// and otherwise the same.
func TestKitDescribesTheQueue(t *testing.T) {
	t.Parallel()
	want := config.Defaults[queue.Settings]().Config()
	want.MaxBytes = bustest.Grants().MaxBytes
	require.Equal(t, "description", bustest.Grants(), want)
}

// A backlog is normal; one of which nothing is written is not.
func TestGrantsThatStandStillAreNoticed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what  string
		looks []bus.QueueState
		want  time.Duration
	}{
		{"empty", []bus.QueueState{{Last: 9, Messages: 0}, {Last: 9, Messages: 0}, {Last: 9, Messages: 0}}, 0},
		{"first message", []bus.QueueState{{Last: 9, Messages: 0}, {Last: 9, Messages: 0}, {Last: 10, Messages: 1}}, 0},
		{"still", []bus.QueueState{{Last: 9, Messages: 0}, {Last: 10, Messages: 1}, {Last: 12, Messages: 3}, {Last: 12, Messages: 3}}, 2 * time.Second},
		{"growing, but written", []bus.QueueState{{Last: 10, Messages: 3}, {Last: 20, Messages: 12}, {Last: 30, Messages: 21}}, 0},
		{"still again", []bus.QueueState{{Last: 10, Messages: 3}, {Last: 10, Messages: 3}, {Last: 10, Messages: 2}, {Last: 11, Messages: 3}}, time.Second},
		{"a new stream", []bus.QueueState{{Last: 10, Messages: 3}, {Last: 10, Messages: 3}, {Last: 1, Messages: 1}}, 0},
	} {
		require.Equal(t, c.what, queue.StoodStill(c.looks...), c.want)
	}
	q := open(t, bustest.Open(t))
	require.NoError(t, q.Moving(t.Context()))
	publish(t, q, 1, "x")
	pgtest.Eventually(t, 30*time.Second, func() bool {
		err := q.Moving(t.Context())
		return err != nil && strings.Contains(err.Error(), "1 messages wait for the order writer")
	}, "a grant that stands still")
	defer consume(t, q, make(chan string, 1))()
	pgtest.Eventually(t, 30*time.Second, func() bool { return q.Moving(t.Context()) == nil }, "it was written")
}

// TestSkippedGrantIsDelivered brings a grant back that was acknowledged, as a
// write error does while its order is not written: no restart delivers it.
func TestSkippedGrantIsDelivered(t *testing.T) {
	t.Parallel()
	server := bustest.StartServer(t)
	b := bustest.Open(t, bustest.On(server.URL))
	q, got := open(t, b), make(chan string, 100)
	taken := func(want string) {
		t.Helper()
		defer consume(t, q, got)()
		select {
		case data := <-got:
			require.Equal(t, "message", data, want)
		case <-time.After(30 * time.Second):
			t.Fatalf("%s did not arrive", want)
		}
		pgtest.Eventually(t, 30*time.Second, func() bool {
			s, err := q.State(t.Context())
			return err == nil && s.Messages == 0
		}, "every grant is acknowledged")
	}
	away := func() {
		server.Stop()
		pgtest.Eventually(t, 30*time.Second, func() bool { return b.Healthy(t.Context()) != nil }, "the bus notices")
	}
	again := func() {
		server.Start()
		pgtest.Eventually(t, 30*time.Second, func() bool { return b.Healthy(t.Context()) == nil }, "the bus is healthy")
	}
	publish(t, q, 1, "before")
	taken("before") // creates the consumer
	publish(t, q, 1, "skipped")
	messages, kept := filepath.Join(server.StoreDir, "jetstream", "$G", "streams", "GRANTS", "msgs"), filepath.Join(t.TempDir(), "msgs")
	away()
	require.NoError(t, os.CopyFS(kept, os.DirFS(messages)))
	again()
	taken("skipped")
	away()
	require.NoError(t, errors.Join(os.RemoveAll(messages), os.Rename(kept, messages)))
	again()
	taken("skipped")
}

// An item is done when its own messages are acknowledged: neither those of others count
// nor those after the mark.
func TestDone(t *testing.T) {
	t.Parallel()
	q := open(t, bustest.Open(t))
	done := func(item int64, upTo uint64) bool {
		t.Helper()
		ok, err := q.Done(t.Context(), item, upTo)
		require.NoError(t, err)
		return ok
	}
	require.Equal(t, "item 1 is done in an empty queue", done(1, 0), true)
	publish(t, q, 1, "first")
	publish(t, q, 12, "another item whose number begins alike")
	require.Equal(t, "done of 1, 2 and 12", []bool{done(1, 2), done(2, 2), done(12, 1), done(12, 2)}, []bool{false, true, true, false})
	got := make(chan string) // holds each message until it is taken
	stop := consume(t, q, got)
	<-got
	pgtest.Eventually(t, 30*time.Second, func() bool { return done(1, 2) }, "item 1 is done")
	require.Equal(t, "item 12 is done while it is handled", done(12, 2), false)
	publish(t, q, 1, "after the mark")
	require.Equal(t, "item 1 is done up to the mark", done(1, 2), true)
	<-got
	<-got
	stop()
}
