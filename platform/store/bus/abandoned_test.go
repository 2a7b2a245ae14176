package bus_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"stampede/platform/base/config"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/require"
)

// holdDirEnv turns the test binary into a process on that folder that dies
// while handling messages.
const holdDirEnv = "STAMPEDE_BUS_TEST_HOLD_DIR"

const (
	heldMessages = 150 // two full batches and a partial one
	inHand       = "all messages are being handled"
	// stateWritten is three times the server's interval for storing its
	// consumers' state. After a crash before that, the server knows of no
	// delivery.
	stateWritten = 300 * time.Millisecond
)

// holdUntilKilled stores grants and events, takes the first batch of each,
// acknowledges every second grant, prints inHand, and waits to be killed.
func holdUntilKilled(dir string) {
	ctx := context.Background()
	cfg := bus.Config{Settings: config.Defaults[bus.Settings]()}
	bustest.In(dir)(&cfg)
	cfg.Queues, cfg.Log = []bus.QueueConfig{bustest.Grants()}, slog.New(slog.DiscardHandler)
	b, err := bus.Open(ctx, cfg)
	for i := range heldMessages {
		if err == nil {
			err = b.Publish(ctx, "grants.1", ids.New(), []byte(strconv.Itoa(i)))
		}
	}
	if err == nil {
		err = b.Publish(ctx, "events.test", ids.New(), []byte("event"))
	}
	if err == nil {
		err = bus.LeaveTimers(ctx, b)
	}
	event := make(chan struct{})
	if err == nil {
		_, err = b.Subscribe(ctx, []bus.Subscription{{Name: "test", Filter: "events.test", Handle: func(context.Context, bus.Msg) error {
			close(event)
			select {}
		}}}, func(context.Context, string, bus.Msg, error) error { return nil })
	}
	if err != nil {
		fmt.Println("error:", err) //nolint:forbidigo // the test reads it
		os.Exit(1)
	}
	err = b.Queue("GRANTS").Consume(ctx, func(_ context.Context, batch []bus.Msg) {
		for i, m := range batch {
			if i%2 == 0 {
				_ = m.Ack() // the test counts redeliveries
			}
		}
		<-event
		// Wait until the server has received all acks.
		for n := uint64(heldMessages); n > heldMessages-uint64(len(batch)+1)/2; {
			if n, err = bus.Messages(ctx, b, "GRANTS"); err != nil {
				fmt.Println("error:", err) //nolint:forbidigo // as above
				os.Exit(1)
			}
		}
		<-time.After(stateWritten)
		fmt.Println(inHand) //nolint:forbidigo // as above
		select {}
	})
	fmt.Println("error:", err) //nolint:forbidigo // as above
	os.Exit(1)
}

// What a killed process has published is stored, and the next start on its folder gets
// its deliveries without waiting for the ack wait: no other process can be handling them.
func TestKilledProcessMessagesAreRedeliveredImmediately(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), holdDirEnv+"="+dir)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	if lines := bufio.NewScanner(out); !lines.Scan() || lines.Text() != inHand {
		t.Fatalf("the child printed %q", lines.Text())
	}
	require.NoError(t, child.Process.Kill())
	_ = child.Wait() // killed

	b := bustest.Open(t, bustest.In(dir))
	_, err = bus.Messages(t.Context(), b, "DELAYED")
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
	missing := make(map[int]bool, heldMessages)
	for i := range heldMessages {
		if i >= 64 || i%2 == 1 {
			missing[i] = true
		}
	}
	left := make(chan int, heldMessages)
	consumeGrants(t, b, acking(t, func(m bus.Msg) {
		i, err := strconv.Atoi(string(m.Data))
		if err != nil || !missing[i] {
			t.Errorf("got message %q, which was acknowledged or is not ours", m.Data)
		}
		delete(missing, i)
		left <- len(missing)
	}))
	event := make(chan string, 1)
	subscribe(t, b, noDeadLetters(t), bus.Subscription{Name: "test", Filter: "events.test", Handle: into(event)})
	// Well below the ack waits of 10 and 15 s, after which everything is
	// redelivered anyway.
	const soon = 6 * time.Second
	for n := -1; n != 0; {
		n = receive(t, soon, "the grants that were left", left)
	}
	receive(t, soon, "the event that was left", event)
	drained(t, b)
	require.Equal(t, "not redelivered", missing, map[int]bool{})
}

// With an external NATS another instance may be alive: its deliveries must stay
// with it when a further instance starts.
func TestStartLeavesDeliveriesOfOtherInstances(t *testing.T) {
	t.Parallel()
	o := bustest.StartServer(t)
	first := bustest.Open(t, bustest.On(o.URL))
	mustPublish(t, first, "grants.1", "x")
	started, finish := make(chan struct{}, 2), make(chan struct{})
	handle := func(_ context.Context, batch []bus.Msg) {
		started <- struct{}{}
		<-finish
		for _, m := range batch {
			_ = m.Ack() // the connection may be closing already
		}
	}
	consumeGrants(t, first, handle)
	receive(t, 5*time.Second, "the message", started)
	second := bustest.Open(t, bustest.On(o.URL))
	consumeGrants(t, second, handle)
	// A mistaken redelivery would arrive within milliseconds.
	select {
	case <-started:
		t.Error("the second instance got a message that the first is handling")
	case <-time.After(300 * time.Millisecond):
	}
	close(finish)
	drained(t, second)
}
