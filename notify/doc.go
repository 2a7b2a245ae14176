// Package notify delivers events to the outside: it pushes every change of an
// order to the shopper's WebSockets, and to streams of server-sent events where a
// network breaks WebSockets. Both are sockets below.
//
// # Owns
//
// The hub: the users connected to this instance and their sockets. It stores
// nothing. A push is a hint; polling GET /api/v1/orders/{no} always returns the
// same, because both render the same document from the same event.
//
// # Invariants
//
//   - A slow client never slows another: each socket has a queue of 16 messages
//     and a deadline of 5 s per write. A socket that exceeds either is closed with
//     status 1013 (try again later) and counted; its client polls and reconnects.
//   - A client that may have missed a push learns it: after an interruption of the
//     event stream each open socket is closed with 1013, a thousand a second.
//   - One user holds at most [Config.MaxPerUser] sockets on an instance.
//   - At most 1,000 connections without a valid token exist at a time, for 10 s
//     each, and at most 250 of one address.
//   - A push about an order goes to its owner only.
//   - A stream that is resumed begins with the orders that changed since its last event,
//     less two minutes, read from Postgres: it skips none, and may repeat some. Until
//     the client has them all, events keep the id that it came with.
//   - A socket ends with its token: closed with 1008 within a second after a
//     revocation and within 20 s after the token's expiry. Its client reconnects with
//     a new token.
//
// # Publishes, consumes
//
// It publishes nothing. It consumes events.order.* with one ephemeral consumer
// per instance, because a user may be connected to any of them, events.dispute.* in
// the same way, and inventoryevent.Returned, of which it tells every socket, at most
// every two seconds: a shopper who was too late hears of returned units as soon as a
// program that polls.
//
// # Lifecycle
//
// [Service.Stop] closes every socket with status 1001 (going away) so that
// clients reconnect elsewhere; it comes after HTTP has drained and before the
// consumers stop.
//
// # Concurrency
//
// The hub's map is split into shards by user, each under its own mutex. A
// socket has a mutex for its queue, taken after a shard's and never before. A
// goroutine writes to a socket only while its queue is not empty, so an idle
// connection costs one goroutine: the reader that answers pings and detects the
// close. A stream costs its request's.
package notify
