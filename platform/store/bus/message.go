package bus

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"stampede/platform/base/ids"
)

// Msg is a message passed to a handler. Ack and Nak are sent without waiting
// for a reply and may be called from any goroutine; the first call counts,
// later ones do nothing. A message that gets neither is redelivered after the
// ack wait.
type Msg struct {
	ID      ids.ID // the publisher's id, the inbox key; zero if it has none
	Subject string
	Data    []byte
	Seq     uint64 // the sequence in its stream; a recreated stream starts from 1 again
	Trace   string // the publisher's traceparent, for tracing.Follow; empty for none
	Attempt int    // 1 on the first delivery; interrupted deliveries also count

	// Ack confirms that the effect is durable. In a Subscription the bus
	// acknowledges when the handler returns nil.
	Ack func() error
	// Nak requests redelivery after a delay (0 = immediately).
	Nak func(delay time.Duration) error

	kept *atomic.Bool // set by Keep
}

// Keep lets a handler of grants return before it has settled the message: the
// bus goes on extending the ack wait until Ack or Nak. The handler must call one
// of them before the process stops consuming.
func (m Msg) Keep() {
	if m.kept != nil {
		m.kept.Store(true)
	}
}

// held is a message that is received but not yet settled.
type held struct {
	Msg
	raw     jetstream.Msg
	order   uint64 // its consumer's own number, from 1 without gaps
	settled atomic.Bool
	keep    atomic.Bool
}

// hold wraps a received message.
func hold(raw jetstream.Msg) *held {
	h := &held{raw: raw}
	h.kept = &h.keep
	h.Subject, h.Data, h.Trace = raw.Subject(), raw.Data(), raw.Headers().Get(traceHeader)
	if id, err := ids.Parse(raw.Headers().Get(jetstream.MsgIDHeader)); err == nil {
		h.ID = id
	}
	h.restore()
	if meta, err := raw.Metadata(); err == nil {
		h.Seq, h.order, h.Attempt = meta.Sequence.Stream, meta.Sequence.Consumer, int(min(meta.NumDelivered, 1<<30)) //nolint:gosec // bounded
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

// keepAlive reports progress on a batch's unsettled messages to the server
// every third of wait, so that a slow handler's messages are not redelivered
// meanwhile. The returned function ends that, except for kept messages.
func keepAlive(batch []*held, wait time.Duration) (stop func()) {
	every := wait / 3
	var timer *time.Timer
	var done atomic.Bool
	ready := make(chan struct{}) // orders the write of timer before its use
	timer = time.AfterFunc(every, func() {
		<-ready
		kept := false
		for _, h := range batch {
			if h.settled.Load() || done.Load() && !h.keep.Load() {
				continue
			}
			kept = kept || h.keep.Load()
			_ = h.raw.InProgress() // without a connection the message is redelivered, which handlers tolerate
		}
		if kept || !done.Load() {
			timer.Reset(every)
		}
	})
	close(ready)
	return func() {
		done.Store(true)
		if !slices.ContainsFunc(batch, func(h *held) bool { return h.keep.Load() && !h.settled.Load() }) {
			timer.Stop()
		}
	}
}
