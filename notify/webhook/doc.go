// Package webhook tells the shop's own systems what happens: it posts events to their
// addresses, signed as Standard Webhooks describes, and lets them pull the same events
// (GET /api/v1/events).
//
// # The log
//
// The outbox is the log (outbox.ReadLog): the relay gives each message its place once
// NATS has it. Nothing is copied, no consumer stands between, and a rush pays one entry
// of an index for a message of some hundred orders. Public events are made of the
// messages when they are read; kinds lists them by subject, and what is not listed
// stays inside. What is no transaction of a module becomes a message by comparison:
// sessions and items (seckill/bulletin, which says what is coalesced) and alarms
// (platform/watch/alarm).
//
// # Delivery
//
// At least once. One instance delivers, under a lease, with a courier for each webhook.
// A webhook has a cursor into the log. A round takes the next events, posts those about
// different orders side by side and those about one order in their order, and then
// writes in one transaction what was taken, what failed, and the cursor: a process that
// dies before posts again.
//
//   - An event that fails waits (notify.webhook_waiting) and is tried again for a day;
//     later events about the same order wait behind it, others do not.
//   - After five failures in a row the receiver is taken to be away: one event is tried
//     every 30 seconds, and the others stay in the log, which is the queue, for 30 days.
//     A receiver that is away costs some thousand rows at most, and none of its events is
//     given up.
//   - Events of one order come in the log's order, which is that of their versions,
//     except between instances whose clocks differ, and after NATS was lost with events
//     that it had not got: then the newest come first. Receivers compare versions.
//
// Addresses are checked when they are connected, after the name is resolved, and
// redirects are not followed (package outbound).
//
// # Concurrency
//
// Service is safe for concurrent use. A cursor moves only from where the round found
// it, so two instances that believe to lead repeat deliveries and lose none.
//
// # Size
//
// The package has more than 2,000 lines because posting and pulling read one log with one
// cursor and one form of an event: a system that changes from one to the other goes on
// where it was.
package webhook
