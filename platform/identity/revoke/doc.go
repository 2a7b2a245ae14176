// Package revoke ends access tokens before their time, on every instance of the
// shop within a second.
//
// # Owns
//
// Table auth.revocations. A row names a login, all of whose tokens have ended, or
// a user and a moment: every token of the user that was issued until then has
// ended, also one that was minted with the signing key. Rows live for as long as
// such a token could ([auth.LongestLoginLife], [auth.LongestLife]) and are then
// removed. Refresh tokens are none of its business; whoever ends a login ends
// those.
//
// # How an instance learns
//
// Each instance keeps the revocations in memory, some 50 bytes each, so that
// asking costs two look-ups in a map. They arrive by three ways:
//
//   - Broadcast. Who revokes calls [Service.Tell] after the commit. It reads the
//     new rows back, which proves that they were committed, and broadcasts them.
//   - Postgres. Every 500 ms an instance reads the rows that its last look did not
//     show, on one connection that it keeps. A lost broadcast thus costs half a
//     second. Whoever finds a row that nobody told tells it in turn, so that a
//     process that dies between commit and broadcast changes nothing.
//   - Redis. What is told is also written to a sorted set, by the Redis server's
//     time. An instance whose look at Postgres fails or takes too long reads that
//     instead, in the same turn.
//
// While the bus is connected, or one of the stores was read within the last
// second, memory is the answer. When neither holds, the instance is cut off: a
// token that it does not know as revoked is refused with 503, because letting a
// revoked one in would be silent. The same holds before the first look.
//
// # Clocks
//
// A user's tokens are compared by the time of their issue, in microseconds. Both
// sides come from [Deps].Clock, which is the Redis server's time by estimate and
// differs between instances by less than a round trip to Redis. So a token from
// the very moment of the revocation may fall on either side if another instance
// minted it; one that is minted after the revocation on the same instance is
// good. A token that claims to be issued in the future counts as old.
//
// # Lifecycle
//
// [Service.Load] before serving, then the workers. Nothing is lost when they end.
package revoke
