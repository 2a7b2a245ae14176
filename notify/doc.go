// Package notify is everything that follows an event and ends outside: today
// the WebSocket push of every change of an order.
//
// # Owns
//
// The hub: which user is connected to this instance, through which sockets. It
// stores nothing. A push is a hint; polling GET /api/v1/orders/{no} always
// tells the same, because both render the same document from the same event.
//
// # Invariants
//
//   - A slow client never slows anybody else: each socket has a queue of 16
//     messages and a deadline of 5 s per write; whoever exceeds either is closed with status 1013 (try again
//     later), counted, and expected to poll and reconnect.
//   - One user holds at most [Config.MaxPerUser] sockets on an instance.
//   - Nothing is pushed to anyone but the order's owner.
//   - A socket ends with its login: [auth.Revocations] is asked again whenever a
//     revocation came into force, and the socket closed with 1008 within a second.
//     It does not end with its token, which a client renews every few minutes
//     without having been away: a stolen one is shut out by ending the login.
//
// # Publishes, consumes
//
// It publishes nothing. It consumes events.order.* with one ephemeral consumer
// per instance, because a user may be connected to any of them.
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
// socket has a mutex of its own around its queue, taken after a shard's and
// never before. A goroutine writes to a socket only while its queue is not
// empty, so an idle connection costs one goroutine: the reader that answers
// pings and notices the close.
package notify
