// Package bus carries messages between the modules and between the instances:
// NATS with JetStream, inside the process or outside.
//
// # Streams
//
//	GRANTS   grants.<item>   work queue: what Redis granted and Postgres has not
//	                         written yet. A message leaves when it is acknowledged;
//	                         a full stream refuses new ones.
//	EVENTS   events.…        what modules tell each other after a commit, published
//	                         by the outbox relay under the outbox row's id. A full
//	                         stream refuses; the rows wait in the outbox.
//	         redrive.…       dead letters sent again to the one consumer that gave
//	                         up on them; the same stream. One from GRANTS goes back
//	                         to its own subject there.
//	DELAYED  delayed.at.<id> timers. When one fires, it becomes delayed.due.<subject>
//	                         in the same stream, which a forwarder carries to EVENTS.
//
// Beside the streams there are broadcasts (broadcast.…), stored nowhere: whoever
// listens at that moment hears them, and nothing may depend on it.
//
// Everything is stored on disk and synced before the acknowledgement; in a
// cluster two of three servers have it then, and sync as they are told to. A stream
// whose store was lost is made anew, empty: the outbox sends the events again
// (Bus.EventsCreated), the hold sweeper the grants, and timers are wake-ups only.
//
// # Delivery
//
// At least once. A publisher repeats the same bytes under the same id until it
// is answered, and the stream drops repetitions within two minutes. Acks are
// sent without waiting for an answer: a lost one means that the message comes
// again, so every handler must bear repetitions (platform/store/inbox). Messages in
// hand are kept alive by progress notes every third of the ack wait, so a slow
// handler is not mistaken for a dead one.
// A process that is alone takes back at its start what its predecessor had in
// hand, without waiting for that.
//
// # Health
//
// JetStream answers a write error (a full disk) with silence and stays broken
// until its server is started anew. A monitor looks twice a second at the
// server's own state; a publish that timed out makes it distrust the stream
// until a probe message is stored. The embedded server is restarted by the same
// goroutine, with back-off, once its folder can be written to again; the
// connection and all consumers outlive that.
//
// # Lifecycle
//
// Open starts the monitor, the trimmer and the forwarder of timers; Subscribe
// and ConsumeGrants add consumers. Stop these first (each finishes what it has
// in hand), then Close.
//
// # Concurrency
//
// A Bus is safe for concurrent use. Its state is one atomic pointer (the last
// verdict on health) and one mutex (signal.mu), which guards a channel only and
// is never held while another is taken.
package bus
