// Package outbox carries events from the transaction of their effect to the
// bus, so that neither exists without the other.
//
// Append writes a row in the caller's transaction. The Relay publishes rows to
// EVENTS under the row's id and marks them after the bus's acknowledgement: a
// crash in between publishes again, and the stream drops the duplicate within
// two minutes; the consumer's inbox catches later ones.
//
// # Order
//
// The relay takes unsent rows in the order of their ids, which is roughly the
// order of creation, except for those that are sent again (see below). It queries for unsent rows each time and keeps no
// position: ids of concurrent transactions become visible out of order, and a
// position would skip a late commit. Consumers must not rely on order and must
// compare the version in the payload.
//
// # One relay at a time
//
// Every instance runs a Relay; a transaction-level advisory lock lets one
// publish at a time. The lock ends with its transaction, so a crash releases it
// immediately, nothing has to be renewed, and it works through a connection
// pooler. The transaction stays open while its window is published: some 80 ms
// for 256 events, at most the bus's publish deadline. The relay gives up on a
// hanging Postgres after 10 s, and Postgres on a relay that publishes for 15 s or
// has frozen: another relay then sends the window again.
//
// # When the bus loses its events
//
// Marked rows are on EVENTS and are normally never sent again. When EVENTS was
// recreated (a fresh volume, a lost store), at the start or later, the relay
// unmarks the rows that were sent before, as far back as the stream would have
// kept them, and sends them again under their old ids: beside new events, which go
// first, and the newest of them before the older ones.
//
// # When the bus does not accept events
//
// Rows wait. The relay backs off from 50 ms to 5 s and never ends on an error.
// A row that the bus refuses by itself (an external server with a lower payload
// limit) raises the alarm "outbox-refused" and moves to platform.outbox_refused, so
// that it neither delays other rows nor keeps its day's partition. The relay tries it
// again after a minute, then after twice as long each time up to half an hour. Once it
// is sent, it is in the outbox again, under its id, so that a recall finds it. An event
// that is still refused a day after its first refusal (--retry-refused) has failed: the
// alarm "outbox-failed" is raised, and the row stays for --keep-records, until an
// operator redrives it (platform/watch/messages). Only a refusal of the event itself
// counts as an attempt: an outage of the bus fails nothing, however long it lasts.
//
// The other end, messages that arrived and could not be handled, is
// platform/watch/deadletters.
//
// # Lifecycle
//
// Relay.Run and Housekeeper.Run are workers: they block until their context
// ends. The relay then sends the remaining rows, for 3 s at most; stop it after
// the components that write rows. Wake makes the relay pick up a commit
// immediately; otherwise it polls every 200 ms.
package outbox
