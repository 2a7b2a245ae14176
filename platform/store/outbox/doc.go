// Package outbox carries events from the transaction of their effect to the
// bus, so that neither exists without the other.
//
// Append writes a row in the caller's transaction. The Relay publishes rows to
// EVENTS under the row's id and marks them after the bus's acknowledgement: a
// crash in between publishes again, and the stream drops the duplicate within
// two minutes; what comes later meets the consumer's inbox.
//
// # Order
//
// The relay takes unsent rows in the order of their ids, which is about the
// order of their making. It looks for unsent rows each time and keeps no
// position: ids of concurrent transactions become visible out of order, and a
// position would skip whoever commits late. Consumers must not count on order
// and go by the version in the payload.
//
// # One relay at a time
//
// Every instance runs a Relay; a transaction-level advisory lock lets one
// publish at a time. The lock ends with its transaction, so a crash frees it at
// once, nothing has to be renewed, and it works through a connection pooler. The
// transaction stays open while its window is published: some 80 ms for 256
// events, at most the bus's publish deadline. A Postgres that hangs is given up
// on after 10 s.
//
// # When the bus loses what it had
//
// Marked rows are on EVENTS, and nobody asks the outbox for them again. When
// EVENTS had to be made anew (a fresh volume, a lost store), at the start or in
// the middle, the relay unmarks the rows that were sent before, as far back as
// the stream would have kept them, and sends them again under their old ids.
//
// # When the bus does not take events
//
// Rows wait. The relay backs off from 50 ms to 5 s and never ends on an error. A
// row that the bus refuses for ever (an outside server with a lower limit on
// payloads) raises the alarm "outbox-refused", is set aside for a minute, and
// holds up nobody else.
//
// # Lifecycle
//
// Relay.Run and Housekeeper.Run are workers: they block until their context
// ends. The relay then sends what is left, for 3 s at most; stop it after
// whoever writes rows. Wake tells the relay of a commit at once; without it, it
// looks every 200 ms.
package outbox
