package bus

import (
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"stampede/platform/base/ids"
)

// Msg is a message in a handler's hand. Ack and Nak are sent without waiting
// for an answer and may be called from any goroutine; the first of them
// counts, later ones do nothing. A message that gets neither comes again after
// the ack wait.
type Msg struct {
	ID      ids.ID // the publisher's id, the inbox key; zero when it carries none
	Subject string
	Data    []byte
	Seq     uint64 // the place in its stream; a stream that was lost counts from 1 again
	Trace   string // what the publisher's trace is called, for tracing.Follow; empty for none
	Attempt int    // 1 on the first delivery; interrupted deliveries count, too

	// Ack says that the effect is durable. In a Subscription's handler the bus
	// acknowledges by itself when the handler returns nil.
	Ack func() error
	// Nak asks for another delivery after a delay (0 = at once).
	Nak func(delay time.Duration) error
}

// held is a message that was received and not settled yet.
type held struct {
	Msg
	raw     jetstream.Msg
	at      time.Time // when the stream stored it, by the server's clock
	settled atomic.Bool
}

// hold wraps a received message.
func hold(raw jetstream.Msg) *held {
	h := &held{raw: raw}
	h.Subject, h.Data, h.Trace = raw.Subject(), raw.Data(), raw.Headers().Get(traceHeader)
	if id, err := ids.Parse(raw.Headers().Get(jetstream.MsgIDHeader)); err == nil {
		h.ID = id
	}
	h.restore()
	if meta, err := raw.Metadata(); err == nil {
		h.Seq, h.Attempt, h.at = meta.Sequence.Stream, int(min(meta.NumDelivered, 1<<30)), meta.Timestamp //nolint:gosec // bounded
	}
	h.Ack = func() error {
		if h.settled.Swap(true) {
			return nil
		}
		return raw.Ack()
	}
	h.Nak = func(delay time.Duration) error {
		if h.settled.Swap(true) {
			return nil
		}
		return raw.NakWithDelay(delay)
	}
	return h
}

// keepAlive tells the server every third of wait that the unsettled messages
// of a batch are being worked on, so that a slow handler is not given company.
// The returned function ends that.
func keepAlive(batch []*held, wait time.Duration) (stop func()) {
	every := wait / 3
	var timer *time.Timer
	var done atomic.Bool
	ready := make(chan struct{}) // orders the write of timer before its use
	timer = time.AfterFunc(every, func() {
		<-ready
		for _, h := range batch {
			if !h.settled.Load() {
				_ = h.raw.InProgress() // without a connection the message comes again, which handlers bear
			}
		}
		if !done.Load() {
			timer.Reset(every)
		}
	})
	close(ready)
	return func() {
		done.Store(true)
		timer.Stop()
	}
}
