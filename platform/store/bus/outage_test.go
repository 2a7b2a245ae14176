package bus_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"stampede/platform/base/config"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/linktest"
	"stampede/platform/workshop/require"
)

// Everything that depends on the connection resumes after the server was away.
func TestBusSurvivesARestartOfAnOutsideServer(t *testing.T) {
	t.Parallel()
	server := bustest.StartServer(t)
	b := bustest.Open(t, bustest.On(server.URL))
	grants, shared, own, heard := make(chan string, 100), make(chan string, 100), make(chan string, 100), make(chan string, 100)
	missed := make(chan struct{}, 100)
	consumeGrants(t, b, func(_ context.Context, batch []bus.Msg) {
		for _, m := range batch {
			grants <- string(m.Data)
			if err := m.Ack(); err != nil {
				t.Logf("ack: %v", err)
			}
		}
	})
	subscribe(t, b, noDeadLetters(t),
		bus.Subscription{Name: "effect", Filter: "events.a", Handle: into(shared)},
		bus.Subscription{
			Name: "push", Filter: "events.a", PerInstance: true, Handle: into(own),
			Missed: func() { missed <- struct{}{} },
		})
	stop, err := b.OnBroadcast("broadcast.test", func(data []byte) { heard <- string(data) })
	require.NoError(t, err)
	defer stop()

	for _, round := range []string{"before", "after", "after twice"} {
		if round != "before" {
			server.Stop()
			eventually(t, 5*time.Second, "the bus notices", func() bool { return b.Healthy(t.Context()) != nil })
			require.ErrorIs(t, b.Publish(t.Context(), "grants.1", ids.New(), []byte("server down")), bus.ErrUnhealthy)
			server.Start()
			eventually(t, 10*time.Second, "the bus is healthy", func() bool { return b.Healthy(t.Context()) == nil })
			receive(t, 5*time.Second, "the notice that messages may be missing", missed)
		} else if len(missed) > 0 {
			t.Error("the start counts as an interruption")
		}
		mustPublish(t, b, "grants.1", round)
		mustPublish(t, b, "events.a", round)
		require.NoError(t, b.Broadcast("broadcast.test", []byte(round)))
		for what, ch := range map[string]chan string{"grants": grants, "shared": shared, "per instance": own, "broadcast": heard} {
			for got := ""; got != round; { // an earlier one may be redelivered
				// Less than a pull's heartbeat, which would also notice, but later.
				got = receive(t, 5*time.Second, what+" "+round, ch)
			}
		}
	}
}

// An external server that lost everything gets its streams and consumers back.
func TestBusSurvivesTheLossOfTheStore(t *testing.T) {
	t.Parallel()
	server := bustest.StartServer(t)
	b := bustest.Open(t, bustest.On(server.URL))
	shared, own := make(chan string, 100), make(chan string, 100)
	subscribe(t, b, noDeadLetters(t),
		bus.Subscription{Name: "effect", Filter: "events.a", Handle: into(shared)},
		bus.Subscription{Name: "push", Filter: "events.a", PerInstance: true, Handle: into(own)})
	for range 5 { // the sequence after the loss lies below the last one seen
		mustPublish(t, b, "events.a", "before")
		receive(t, 5*time.Second, "shared before", shared)
		receive(t, 5*time.Second, "own before", own)
	}
	away := func(loss func() error) {
		t.Helper()
		server.Stop()
		require.NoError(t, loss())
		eventually(t, 5*time.Second, "the bus notices", func() bool { return b.Healthy(t.Context()) != nil })
		server.Start()
		eventually(t, 10*time.Second, "the bus is healthy", func() bool { return b.Healthy(t.Context()) == nil })
	}
	// EventsCreated tells a loss from a restart, so that lost messages can be
	// sent again.
	made := b.EventsCreated()
	if age := time.Since(made); age < 0 || age > time.Minute {
		t.Errorf("EVENTS was created %s ago", age)
	}
	away(func() error { return nil })
	require.Equal(t, "creation of EVENTS after a restart", b.EventsCreated(), made)
	away(func() error { return os.RemoveAll(server.StoreDir) })
	if again := b.EventsCreated(); !again.After(made) {
		t.Errorf("after the loss EVENTS was created %s, want later than %s", again, made)
	}
	require.NoError(t, b.Publish(t.Context(), "events.a", ids.NewTagged(1, 0, time.Now().Add(-time.Hour)), []byte("history")))
	require.Equal(t, "shared", receive(t, 10*time.Second, "shared", shared), "history")
	both := func(data string) {
		t.Helper()
		mustPublish(t, b, "events.a", data)
		for what, ch := range map[string]chan string{"shared": shared, "per instance": own} {
			require.Equal(t, what, receive(t, 10*time.Second, what, ch), data)
		}
	}
	both("after")
	made = b.EventsCreated()
	require.NoError(t, bus.DeleteEvents(t.Context(), b)) // as an operator may, while the server runs
	eventually(t, 30*time.Second, "EVENTS is created again", func() bool { return b.EventsCreated().After(made) })
	both("after the removal")
}

// An instance that begins while history is sent again skips that, and nothing else: not
// what an instance writes whose clock is behind, and nothing because its own is ahead.
func TestOnlyHistoryIsSkipped(t *testing.T) {
	t.Parallel()
	now := time.Now()
	const off = 10 * time.Minute
	for name, test := range map[string]struct {
		made, begun time.Time // by NATS's clock
		event       time.Time
		want        bool
	}{
		"history":                    {now.Add(-time.Minute), now, now.Add(-off), true},
		"news":                       {now.Add(-time.Minute), now, now, false},
		"a writer with a slow clock": {now.Add(-24 * time.Hour), now, now.Add(-off), false},
		"a fast clock here":          {now.Add(-off - time.Minute), now.Add(-off), now.Add(-off), false},
	} {
		require.Equal(t, name, bus.Skips(test.made, test.begun, ids.NewTagged(1, 0, test.event)), test.want)
	}
}

// A message that was sent to an instance and did not arrive there, as from a
// server that is stopping, comes again. Another client takes it here.
func TestPerInstanceConsumerMissesNothing(t *testing.T) {
	t.Parallel()
	server := bustest.StartServer(t)
	b := bustest.Open(t, bustest.On(server.URL))
	own := make(chan string, 100)
	subscribe(t, b, noDeadLetters(t), bus.Subscription{
		Name: "push", Filter: "events.a", PerInstance: true,
		Handle: into(own),
	})
	nc, err := nats.Connect(server.URL)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	events, err := js.Stream(t.Context(), "EVENTS")
	require.NoError(t, err)
	taken, err := nc.SubscribeSync(nc.NewInbox())
	require.NoError(t, err)
	for name := range events.ConsumerNames(t.Context()).Name() {
		require.NoError(t, nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.EVENTS."+name, taken.Subject, []byte(`{"batch":1,"expires":60000000000}`)))
	}
	for _, data := range []string{"1", "2", "3"} {
		mustPublish(t, b, "events.a", data)
	}
	if _, err := taken.NextMsg(30 * time.Second); err != nil {
		t.Fatalf("the message that does not arrive: %v", err)
	}
	for _, want := range []string{"1", "2", "3"} {
		require.Equal(t, "event", receive(t, 30*time.Second, want, own), want)
	}
}

// After a write error JetStream stops answering. The monitor restarts it once
// the folder is writable again, and no stored message is lost.
func TestBusRecoversFromABrokenStore(t *testing.T) {
	t.Parallel()
	const deadline = time.Second
	dir := t.TempDir()
	b := bustest.Open(t, bustest.In(dir), func(c *bus.Config) { c.PublishDeadline = deadline })
	stored := map[ids.ID]bool{mustPublish(t, b, "grants.1", "before"): true}

	// A file in place of the block folder makes the next block fail like a full
	// disk would, even for root.
	blocks := filepath.Join(dir, "jetstream", "$G", "streams", "GRANTS", "msgs")
	require.NoError(t, os.Rename(blocks, blocks+".away"))
	require.NoError(t, os.WriteFile(blocks, nil, 0o600))
	var err error
	for range 10 { // fills the open block of 4 MiB
		id := ids.New()
		if err = b.Publish(t.Context(), "grants.1", id, make([]byte, 900<<10)); err != nil {
			break
		}
		stored[id] = true
	}
	require.ErrorIs(t, err, bus.ErrUnknown)
	eventually(t, 5*time.Second, "the bus is unhealthy", func() bool { return errors.Is(b.Healthy(t.Context()), bus.ErrUnhealthy) })
	started := time.Now()
	require.ErrorIs(t, b.Publish(t.Context(), "grants.1", ids.New(), nil), bus.ErrUnhealthy)
	if took := time.Since(started); took >= deadline {
		t.Errorf("the refusal took %s; it must not wait for the stream", took)
	}

	require.NoError(t, os.Remove(blocks))
	require.NoError(t, os.Rename(blocks+".away", blocks))
	eventually(t, 15*time.Second, "the bus is healthy again", func() bool { return b.Healthy(t.Context()) == nil })
	stored[mustPublish(t, b, "grants.1", "after")] = true
	got := make(chan ids.ID, 100)
	consumeGrants(t, b, acking(t, func(m bus.Msg) { got <- m.ID }))
	for len(stored) > 0 {
		delete(stored, receive(t, 10*time.Second, "what was stored", got))
	}
}

// When an answer is lost the publisher repeats the message until it gets one:
// the message is stored once.
func TestPublishRepeatsUntilAnswered(t *testing.T) {
	t.Parallel()
	server := bustest.StartServer(t)
	link := linktest.New(t, "tcp", strings.TrimPrefix(server.URL, "nats://"))
	b := bustest.Open(t, bustest.On("nats://"+link.Addr()), func(c *bus.Config) { c.PublishDeadline = 4 * time.Second })

	link.Mute(true)
	published := make(chan error, 1)
	go func() { published <- b.Publish(t.Context(), "grants.1", ids.New(), []byte("x")) }()
	watch := bustest.Open(t, bustest.On(server.URL))
	stored := func() bool {
		n, err := bus.Messages(t.Context(), watch, "GRANTS")
		return err == nil && n == 1
	}
	eventually(t, 3*time.Second, "the message is stored", stored)
	require.Equal(t, "published without an answer", len(published), 0)
	link.Mute(false)
	require.NoError(t, receive(t, 5*time.Second, "the answer", published))
	eventually(t, 5*time.Second, "the probe has gone", func() bool { return b.Healthy(t.Context()) == nil })
	require.Equal(t, "the queue has one message", stored(), true)
}

func TestPublishWithoutAnAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	server := bustest.StartServer(t)
	link := linktest.New(t, "tcp", strings.TrimPrefix(server.URL, "nats://"))
	b := bustest.Open(t, bustest.On("nats://"+link.Addr()), func(c *bus.Config) { c.PublishDeadline = 1500 * time.Millisecond })
	link.Mute(true)
	require.ErrorIs(t, b.Publish(t.Context(), "grants.1", ids.New(), []byte("x")), bus.ErrUnknown)
	eventually(t, 5*time.Second, "the bus doubts", func() bool { return b.Healthy(t.Context()) != nil })
	link.Mute(false)
	eventually(t, 10*time.Second, "the bus trusts again", func() bool { return b.Healthy(t.Context()) == nil })
	mustPublish(t, b, "grants.1", "after")
}

func TestOpenReportsWhatIsWrong(t *testing.T) {
	t.Parallel()
	cfg := bus.Config{Settings: config.Defaults[bus.Settings]()}
	cfg.URL = "nats://127.0.0.1:1"
	_, err := bus.Open(t.Context(), cfg)
	require.Equal(t, "a bus without a logger is opened", err == nil, false)
	server := bustest.StartServer(t)
	server.Stop()
	cfg.URL, cfg.Log = server.URL, discard()
	_, err = bus.Open(t.Context(), cfg)
	require.Equal(t, "a bus without a server is opened", err == nil, false)
}

func TestStreamsLeaveHalfOfTheDisk(t *testing.T) {
	t.Parallel()
	cfg := bus.Config{Settings: config.Defaults[bus.Settings]()}
	cfg.Queues = []bus.QueueConfig{{MaxBytes: 512 << 20}}
	for free, want := range map[int64]int64{
		100 << 30: 512 << 20,
		1 << 30:   179_000_000, // scaled: 0.5 of the configured 1.5 GiB, out of 0.5
		1 << 20:   1 << 20,     // the least that can work
	} {
		grants, sum := bus.BoundsFor(cfg, free)
		if grants < want-want/10 || grants > want+want/10 {
			t.Errorf("with %d bytes free: grants %d, want about %d", free, grants, want)
		}
		if sum > max(free/2, 2<<20) {
			t.Errorf("with %d bytes free the streams may use %d", free, sum)
		}
	}
}
