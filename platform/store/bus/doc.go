// Package bus carries messages between the modules and between the instances:
// NATS with JetStream, inside the process or outside.
//
// # Streams
//
// A module that hands work to another describes a work queue (QueueConfig): a message
// leaves it when it is acknowledged, and a full one refuses new messages. seckill/queue
// has the only one, GRANTS. The bus has a stream of its own:
//
//	EVENTS   events.…        what modules tell each other after a commit, published
//	                         by the outbox relay under the outbox row's id. A full
//	                         stream refuses; the rows wait in the outbox.
//	         redrive.…       dead letters sent again to the one consumer that gave
//	                         up on them; the same stream. One from a queue goes back
//	                         to its own subject there.
//
// Beside the streams there are broadcasts (broadcast.…), which are not stored:
// only current subscribers receive them, and nothing may depend on that.
//
// Everything is stored on disk and synced before the acknowledgement; in a
// cluster two of three servers have it by then, and sync as they are configured
// to. A stream whose store was lost is recreated empty: the outbox sends the
// events again (Bus.EventsCreated), and the hold sweeper the grants.
//
// # Delivery
//
// At least once. A publisher repeats the same bytes under the same id until it
// gets an answer, and the stream drops duplicates within two minutes. Acks are
// sent without waiting for a reply: after a lost one the message is
// redelivered, so every handler must tolerate redelivery
// (platform/store/inbox). While a handler runs, its messages get a progress
// acknowledgement every third of the ack wait, so a slow handler is not
// mistaken for a dead one. A single instance takes back its predecessor's
// unacknowledged messages at its start, without waiting for the ack wait.
// Consumers per instance acknowledge nothing and count instead: one that finds a
// message missing starts again after the last one that it has.
//
// A consumer leaves events in the layout of a newer version on the stream, with
// a report twice a minute (message.go). They and events that are being retried do
// not keep others from it, however many they are.
//
// EVENTS keeps what a shared consumer has not handled. Consumers of a version
// that no longer runs are deleted when an instance subscribes, and when the
// stream is half full.
//
// # Health
//
// After a write error (a full disk) JetStream stops answering and stays broken
// until its server is restarted. A monitor checks the server's state twice a
// second; after a publish times out it distrusts the stream until a probe
// message is stored. The same goroutine restarts the embedded server, with
// back-off, once its folder is writable again; the connection and all consumers
// survive the restart. A queue that is full is reported by Healthy too, so that its
// publishers stop in time.
//
// # Lifecycle
//
// Open starts the monitor and the trimmer; Subscribe and Queue.Consume add
// consumers. Stop these first (each finishes the messages it is handling), then
// Close.
//
// # Concurrency
//
// A Bus is safe for concurrent use and has no locks: the last verdict on health
// is one atomic pointer, and what the loops, publishers and subscribers tell each
// other beside it is an atomic each.
//
// # Size
//
// The package has more than 2,000 lines because publishing, consuming and the monitor
// share one connection and one verdict on its health.
package bus
