// Package queue is GRANTS, the stream on which the rush hands what Redis granted to
// the order writer: its description, its rules, and the sweeper of holds whose message
// may be lost. Nothing else knows them; platform/store/bus has the mechanics of a work
// queue and serves this one without a name of its own for it.
//
//	grants.<item>   one message for the grants of one call to Redis
//	                (seckillevent.Batch). It leaves when the writer has committed
//	                its orders; a full queue refuses new ones, and intake stops
//	                before that.
//
// # Who uses it
//
//	seckill/rush  publishes, and asks whether the queue takes messages (Healthy)
//	the Sweeper   publishes again what has neither a message nor an order
//	order         consumes, and reports how many wait
//	inventory     asks which grants of an item are done before it counts units, and has
//	              those published again that have neither a message nor an order
//
// order and inventory must not import seckill. Each declares the two or three methods
// that it calls as an interface (order.Grants, inventory.Grants), and main gives them
// the Queue as an argument of their constructors. That works without a later Bind
// because the Queue needs nothing of theirs: it is built from the bus and the catalogue
// before them. platform/adr/0046-queue-of-grants.md says why it is no part of the bus
// and no package of order.
//
// # Rules
//
//   - An item is done up to a sequence when its oldest message is beyond it: a work
//     queue contains exactly what is not acknowledged.
//   - Messages that wait while none leaves the queue for ten seconds are a writer that
//     stands still, and the instance is not ready (Moving).
//   - The oldest message may be one that the consumer counts as acknowledged, as after a
//     write error of a full disk. No restart delivers it, and a Load would wait for it
//     for ever: the consumer is deleted, and the next one delivers everything that is left.
package queue
