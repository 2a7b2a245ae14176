package rush

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"stampede/platform/bench"
	"stampede/platform/bus"
	"stampede/platform/ids"
	"stampede/seckill/seckillevent"
)

const (
	// benchGrants is how many grants a message carries in the benchmark: what a
	// busy lane takes at once.
	benchGrants = 256
	// benchMost bounds what a round stores, some 10 KiB for each message, well
	// below the stream's bound.
	benchMost = 8000 * benchGrants
)

// PublishStage measures the durable publication of grants, a batch per message,
// as a lane makes it before it answers. Its floor appends the same bytes to a
// file and syncs it, each before the next: what every store must do that has
// promised to lose nothing. It keeps no index, finds no duplicate and can be read
// by nobody else.
func PublishStage() bench.Stage {
	return bench.Stage{
		Name: "publish", Unit: "grants", Probe: 50 * benchGrants, Most: benchMost, Step: benchGrants,
		Ours:  "messages of 256 grants, stored and synced by the embedded NATS",
		Floor: "the same bytes appended to a file, with fsync",
		Remark: "Waiting for the disk is nearly all of it on both sides, and a disk is rarely as fast twice; the processor time is what JetStream " +
			"adds: the message is found again by its id, and handed to the writer.",
		Open: openPublish,
	}
}

// publishing is the stage under way.
type publishing struct {
	bus      *bus.Bus
	file     *os.File
	batch    seckillevent.Batch
	messages [][]byte
	numbers  []ids.ID
}

func openPublish(ctx context.Context, rig *bench.Rig) (floor, ours bench.Side, closeSides func(context.Context) error, err error) {
	p := &publishing{}
	if p.bus, err = rig.Bus(ctx); err != nil {
		return floor, ours, nil, err
	}
	dir, err := rig.Dir("publish")
	if err != nil {
		return floor, ours, nil, err
	}
	if p.file, err = os.OpenFile(filepath.Join(dir, "grants"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return floor, ours, nil, fmt.Errorf("seckill: open the floor's file: %w", err)
	}
	p.batch = seckillevent.Batch{
		ItemID: 1, ActivityID: 1, SessionID: 1, Epoch: 1, UnitPrice: 9900, Currency: "CNY", Title: "限量版跑鞋", PayWindow: 15 * time.Minute,
		Grants: make([]seckillevent.Grant, benchGrants),
	}
	first := rig.Users(benchGrants)
	for i := range p.batch.Grants {
		user := first + int64(i)
		p.batch.Grants[i] = seckillevent.Grant{No: ids.NewFor(user), User: user, Quantity: 1, Seq: int64(i) + 1}
	}
	floor = bench.Side{Prepare: p.rewind, Work: p.appendAll}
	ours = bench.Side{Prepare: p.drain, Work: p.publishAll}
	return floor, ours, func(context.Context) error { return p.file.Close() }, nil
}

// encode makes the messages of n grants.
func (p *publishing) encode(n int) {
	p.messages, p.numbers = p.messages[:0], p.numbers[:0]
	for range n / benchGrants {
		p.batch.ID = ids.New()
		p.messages, p.numbers = append(p.messages, p.batch.Encode(nil)), append(p.numbers, p.batch.ID)
	}
}

// rewind empties the file.
func (p *publishing) rewind(_ context.Context, n int) error {
	p.encode(n)
	if err := p.file.Truncate(0); err != nil {
		return fmt.Errorf("seckill: empty the floor's file: %w", err)
	}
	return nil
}

func (p *publishing) appendAll(ctx context.Context, _ int) (bench.Sample, error) {
	for _, data := range p.messages {
		_, err := p.file.Write(data)
		if err = errors.Join(err, p.file.Sync(), ctx.Err()); err != nil {
			return bench.Sample{}, fmt.Errorf("seckill: append to the floor's file: %w", err)
		}
	}
	return bench.Sample{}, nil
}

// drain takes what the last round stored from the stream, as the writer does.
func (p *publishing) drain(ctx context.Context, n int) error {
	p.encode(n)
	taking, stop := context.WithCancel(ctx)
	taken := make(chan error, 1)
	go func() {
		taken <- p.bus.ConsumeGrants(taking, func(_ context.Context, batch []bus.Msg) {
			for _, m := range batch {
				_ = m.Ack() // one that is lost comes again
			}
		})
	}()
	err := p.awaitEmpty(ctx)
	stop()
	return errors.Join(err, <-taken)
}

// awaitEmpty returns when nothing waits on the stream.
func (p *publishing) awaitEmpty(ctx context.Context) error {
	const every = 20 * time.Millisecond // taking a round's messages is a matter of seconds
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		waiting, err := p.bus.GrantsBacklog(ctx)
		if err != nil || waiting == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (p *publishing) publishAll(ctx context.Context, _ int) (bench.Sample, error) {
	for i, data := range p.messages {
		if err := p.bus.Publish(ctx, seckillevent.GrantsSubject(p.batch.ItemID), p.numbers[i], data); err != nil {
			return bench.Sample{}, err
		}
	}
	return bench.Sample{}, nil
}
