package bus_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"stampede/platform/base/config"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/bustest"
)

// holdDirEnv makes the test binary a process on that folder that dies with
// messages in hand.
const holdDirEnv = "STAMPEDE_BUS_TEST_HOLD_DIR"

const (
	heldMessages = 150 // two full batches and a rest
	inHand       = "everything is in hand"
	// stateWritten is three times the server's own interval for writing down what
	// its consumers have delivered. A crash before that finds nothing in hand.
	stateWritten = 300 * time.Millisecond
)

// holdUntilKilled stores grants and events, takes the first batch of each, acknowledges
// every second grant, says so, and waits for its end.
func holdUntilKilled(dir string) {
	ctx := context.Background()
	cfg := bus.Config{Settings: config.Defaults[bus.Settings]()}
	cfg.StoreDir, cfg.Log = dir, slog.New(slog.DiscardHandler)
	b, err := bus.Open(ctx, cfg)
	for i := range heldMessages {
		if err == nil {
			err = b.Publish(ctx, "grants.1", ids.New(), []byte(strconv.Itoa(i)))
		}
	}
	if err == nil {
		err = b.Publish(ctx, "events.test", ids.New(), []byte("event"))
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
	err = b.ConsumeGrants(ctx, func(_ context.Context, batch []bus.Msg) {
		for i, m := range batch {
			if i%2 == 0 {
				_ = m.Ack() // the test counts what comes again
			}
		}
		<-event
		// The acks have been sent once the server has seen them all.
		for n := uint64(heldMessages); n > heldMessages-uint64(len(batch)+1)/2; {
			if n, err = b.GrantsBacklog(ctx); err != nil {
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

// A process that is killed leaves its deliveries to the next start on the same
// folder, which need not wait for their ack wait: nobody else can hold them.
func TestWhatAKilledProcessHadInHandComesAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), holdDirEnv+"="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if lines := bufio.NewScanner(out); !lines.Scan() || lines.Text() != inHand {
		t.Fatalf("the child says %q", lines.Text())
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // killed

	b := bustest.Open(t, func(c *bus.Config) { c.StoreDir = dir })
	missing := make(map[int]bool, heldMessages)
	for i := range heldMessages {
		if i >= 64 || i%2 == 1 {
			missing[i] = true
		}
	}
	left := make(chan int, heldMessages)
	consumeGrants(t, b, func(_ context.Context, batch []bus.Msg) {
		for _, m := range batch {
			i, err := strconv.Atoi(string(m.Data))
			if err != nil || !missing[i] {
				t.Errorf("message %q came, which was acknowledged or is not ours", m.Data)
			}
			delete(missing, i)
			if err := m.Ack(); err != nil {
				t.Errorf("ack: %v", err)
			}
		}
		left <- len(missing)
	})
	event := make(chan struct{}, 1)
	subscribe(t, b, noDeadLetters(t), bus.Subscription{Name: "test", Filter: "events.test", Handle: func(context.Context, bus.Msg) error {
		event <- struct{}{}
		return nil
	}})
	// Well below the ack waits of 10 and 15 s, after which all comes by itself.
	const soon = 6 * time.Second
	for n := -1; n != 0; {
		n = receive(t, soon, "the grants that were left", left)
	}
	receive(t, soon, "the event that was left", event)
	eventually(t, soon, "all are acknowledged", func() bool {
		n, err := b.GrantsBacklog(t.Context())
		return err == nil && n == 0
	})
	if len(missing) > 0 {
		t.Errorf("never came: %v", slices.Sorted(maps.Keys(missing)))
	}
}

// With an outside NATS another instance may well be alive: its deliveries stay
// in its hands when one more instance starts.
func TestAStartLeavesTheOthersDeliveriesAlone(t *testing.T) {
	t.Parallel()
	o := startOutside(t)
	first := openOutside(t, o.addr())
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
	second := openOutside(t, o.addr())
	consumeGrants(t, second, handle)
	// What would come here by mistake is delivered within milliseconds.
	select {
	case <-started:
		t.Error("the second instance got what the first one holds")
	case <-time.After(300 * time.Millisecond):
	}
	close(finish)
	eventually(t, 5*time.Second, "it is acknowledged", func() bool {
		n, err := second.GrantsBacklog(t.Context())
		return err == nil && n == 0
	})
}
