package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"stampede/platform/base/app"
)

const (
	// pullWait is how long one pull request stays open at the server when no
	// message arrives. It costs only a round trip per expiry and instance.
	pullWait = 30 * time.Second
	// pullPause keeps a consumer from spinning while the server is away.
	pullPause = 100 * time.Millisecond
)

// puller receives the messages of one consumer in batches of whatever is
// available. It requests a batch only when its owner is ready for one, so that
// every received message is being handled and none ages in a buffer.
type puller struct {
	bus      *Bus
	consumer jetstream.Consumer
	// create creates the consumer; it is called again when the consumer has vanished.
	create func(ctx context.Context) (jetstream.Consumer, error)

	missed      func()           // Subscription.Missed, or nil
	connections uint64           // how often the client had reconnected when missed was last considered
	connected   chan nats.Status // tells of each reconnection, with which a pull is lost
}

// next blocks until at least one message is available or ctx ends (then nil),
// and returns it with any others that are waiting, at most most.
func (p *puller) next(ctx context.Context, most int) []*held {
	for ctx.Err() == nil {
		if n := p.bus.nc.Stats().Reconnects; n != p.connections {
			p.connections = n
			p.miss()
		}
		batch, err := p.receive(ctx, most)
		if len(batch) > 0 {
			return batch
		}
		if err != nil && ctx.Err() == nil {
			p.recover(ctx, err)
		}
	}
	p.bus.nc.RemoveStatusListener(p.connected)
	return nil
}

// receive makes one blocking pull for a single message, then one for the
// messages behind it. No message and no error means that none arrived.
func (p *puller) receive(ctx context.Context, most int) ([]*held, error) {
	first, err := p.fetchOne(ctx)
	if err != nil || first == nil {
		return nil, err
	}
	batch := []*held{first}
	if most == 1 || ctx.Err() != nil {
		return batch, nil //nolint:nilerr // received messages must be handled even after ctx has ended
	}
	rest, err := p.consumer.FetchNoWait(most - 1)
	if err != nil {
		return batch, nil //nolint:nilerr // the first message must be handled; the next pull gets the error again
	}
	for raw := range rest.Messages() {
		batch = append(batch, hold(raw))
	}
	return batch, nil
}

func (p *puller) fetchOne(ctx context.Context) (*held, error) {
	if !p.bus.nc.IsConnected() {
		// The library leaks a subscription for each pull that it cannot send,
		// so do not try.
		select {
		case <-ctx.Done():
		case <-p.connected:
		case <-time.After(pullPause): // the status may have changed before
		}
		return nil, nil
	}
	connection := p.bus.nc.Stats().Reconnects
	wait, cancel := context.WithTimeout(ctx, pullWait)
	defer cancel()
	fetch, err := p.consumer.Fetch(1, jetstream.FetchContext(wait))
	if err != nil {
		return nil, err
	}
	for {
		select {
		case raw := <-fetch.Messages():
			if raw != nil {
				return hold(raw), nil
			}
			if err := fetch.Error(); err != nil && wait.Err() == nil {
				return nil, err
			}
			return nil, nil
		case <-p.connected:
			// A reconnect loses the pull request, so it ends the wait; unless it was one before this
			// request: ending that would lose the message that answers it.
			if p.bus.nc.Stats().Reconnects == connection {
				continue
			}
			cancel()
			// A message that arrived at the same moment is still returned.
			if raw := <-fetch.Messages(); raw != nil {
				return hold(raw), nil
			}
			return nil, nil
		}
	}
}

// recover waits a little, then creates the consumer again if the server no longer knows it or has skipped a message.
func (p *puller) recover(ctx context.Context, cause error) {
	if app.Sleep(ctx, pullPause) != nil {
		return
	}
	gone := errors.Is(cause, nats.ErrNoResponders) || errors.Is(cause, jetstream.ErrConsumerDeleted) ||
		errors.Is(cause, jetstream.ErrConsumerNotFound) || errors.Is(cause, jetstream.ErrNoHeartbeat) || errors.Is(cause, errGap)
	if !gone || !p.bus.nc.IsConnected() {
		return
	}
	consumer, err := p.create(ctx)
	if err != nil {
		if ctx.Err() == nil {
			p.bus.cfg.Log.WarnContext(ctx, "consumer not recreated, retrying", "error", err, "cause", cause)
		}
		return
	}
	p.consumer = consumer
	p.miss()
}

func (p *puller) miss() {
	if p.missed != nil {
		p.missed()
	}
}

// newPuller creates the consumer for the first time.
func (b *Bus) newPuller(ctx context.Context, create func(ctx context.Context) (jetstream.Consumer, error)) (*puller, error) {
	consumer, err := create(ctx)
	if err != nil {
		return nil, err
	}
	connected := b.nc.StatusChanged(nats.CONNECTED)
	return &puller{bus: b, consumer: consumer, create: create, connections: b.nc.Stats().Reconnects, connected: connected}, nil
}

// durable returns the function that creates a consumer shared by all instances.
func (b *Bus) durable(stream, name string, ackWait time.Duration, filters ...string) func(ctx context.Context) (jetstream.Consumer, error) {
	return func(ctx context.Context) (jetstream.Consumer, error) {
		c, err := b.js.CreateOrUpdateConsumer(ctx, stream, jetstream.ConsumerConfig{
			Durable:        name,
			FilterSubjects: filters,
			AckPolicy:      jetstream.AckExplicitPolicy,
			AckWait:        ackWait,
			// The server never gives up on a message: the subscription decides
			// that and keeps a dead letter.
			MaxDeliver: -1,
			// Messages that wait unacknowledged must not keep the others from a
			// consumer: grants of an item whose stock row is locked, events that fail
			// or are of a newer version. The streams bound them.
			MaxAckPending: -1,
		})
		if err != nil {
			return nil, fmt.Errorf("bus: create consumer %s on %s: %w", name, stream, err)
		}
		return c, nil
	}
}
