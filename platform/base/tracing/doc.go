// Package tracing follows single orders through the system: one trace from the
// rush through the lane's batch, the decision, the durable message, the order
// writer's transaction, the outbox and its message to the push, and another one
// from a payment's callback through its transaction to the push.
//
// A nil *Tracer is tracing that is off, and is what everybody has unless an
// endpoint was named. Its methods do nothing; whoever is on the rush's way asks
// On first, so that off costs one comparison and no allocation.
//
// Which requests are followed is decided once, where a trace begins: a share of
// them, by chance, before anything is built. Everything later follows what it
// finds: a context or a message that carries no trace starts none. Traces that
// clients bring along are not continued, or anybody could make the shop record
// whatever he sends.
//
// Where many become one, the batch and the writer's transaction belong to the
// trace of the first traced attempt or message, and the others are linked to it
// or it to them.
//
// Spans are sent over OTLP by one goroutine that gathers them in a bounded
// queue. A collector that is slow or gone costs spans, never time.
package tracing
