package bus

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// subscribeTimeout bounds the round trip that makes a broadcast subscription
// effective.
const subscribeTimeout = 2 * time.Second

// Broadcast sends data to every instance that is subscribed at this moment,
// this one included. It neither stores nor repeats anything: use it for hints
// whose loss costs a little time. It fails immediately while the connection is
// down.
func (b *Bus) Broadcast(subject string, data []byte) error {
	if err := b.nc.Publish(subject, data); err != nil {
		return fmt.Errorf("bus: broadcast %s: %w", subject, err)
	}
	return nil
}

// Kicks returns a channel that receives a value after broadcasts on subject
// from any instance, until stop. It is buffered: several broadcasts coalesce
// into one pending value.
func (b *Bus) Kicks(subject string) (kicks <-chan struct{}, stop func(), err error) {
	kicked := make(chan struct{}, 1)
	stop, err = b.OnBroadcast(subject, func([]byte) {
		select {
		case kicked <- struct{}{}:
		default:
		}
	})
	return kicked, stop, err
}

// OnBroadcast calls fn for each broadcast on subject from any instance, one at
// a time, until stop. fn must be quick: if it falls behind, the newest
// broadcasts are dropped. The subscription survives reconnects.
func (b *Bus) OnBroadcast(subject string, fn func(data []byte)) (stop func(), err error) {
	sub, err := b.nc.Subscribe(subject, func(m *nats.Msg) { fn(m.Data) })
	if err != nil {
		return nil, fmt.Errorf("bus: subscribe to %s: %w", subject, err)
	}
	stop = func() { _ = sub.Unsubscribe() } // fails only on a closed connection
	if err := b.nc.FlushTimeout(subscribeTimeout); err != nil {
		stop()
		return nil, fmt.Errorf("bus: subscribe to %s: %w", subject, err)
	}
	return stop, nil
}
