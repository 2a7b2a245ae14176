// Package tracing follows single orders through the system: one trace from the
// rush through the lane's batch, the decision, the durable message, the order
// writer's transaction, the outbox and its message to the push, and another
// from a payment's callback through its transaction to the push.
//
// A nil *Tracer means that tracing is off, which is the default unless an
// endpoint is configured. Its methods do nothing; code on the rush path calls
// On first, so that tracing costs one comparison and no allocation when it is
// off.
//
// Sampling is decided once, where a trace begins: a random share of the
// requests, before anything is built. Later steps follow that decision: a
// context or a message that carries no trace starts none. Traces that clients
// send are not continued, since any client could then force the shop to record
// its requests.
//
// Where many traces merge, the batch and the writer's transaction belong to the
// trace of the first traced attempt or message, and are linked with the others.
//
// One goroutine sends spans over OTLP from a bounded queue. A slow or absent
// collector costs spans, never time.
package tracing
