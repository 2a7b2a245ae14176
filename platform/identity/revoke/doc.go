// Package revoke ends access tokens before they expire, on every instance of the
// shop within a second.
//
// # Owns
//
// Table auth.revocations. A row names either a login, and ends all its tokens, or
// a user and a time, and ends every token of the user issued up to that time,
// including tokens minted with the signing key. A row lives as long as such a token
// could ([auth.LongestLoginLife], [auth.LongestLife]) and is then deleted. Refresh
// tokens are out of scope: the code that ends a login ends its refresh token.
//
// # How an instance learns
//
// Each instance keeps the revocations in memory, some 50 bytes each, so that a
// check costs two map lookups. Revocations arrive over three channels:
//
//   - Broadcast. The revoking code calls [Service.Tell] after the commit. It reads
//     the new rows back, which proves that they were committed, and broadcasts them.
//   - Postgres. Every 500 ms an instance reads the rows that its last read did not
//     return, on one connection that it keeps. A lost broadcast thus costs half a
//     second. An instance that finds a row which has not been broadcast broadcasts
//     it, so a process that dies between commit and broadcast changes nothing.
//   - Redis. Every broadcast entry is also written to a sorted set, scored by the
//     Redis server's time. An instance whose read of Postgres fails or times out
//     reads the set instead, in the same turn.
//
// While the bus is connected, or one of the stores was read within the last
// second, the instance answers from memory. Otherwise it is cut off: it refuses
// every token that it does not know as revoked with 503, because it could admit a
// revoked one without noticing. The same applies before the first read.
//
// # Clocks
//
// A user's tokens are compared by their time of issue, in microseconds. Both sides
// come from [Deps].Clock, which estimates the Redis server's time and differs
// between instances by less than a round trip to Redis. A token issued at the very
// moment of the revocation may therefore fall on either side if another instance
// minted it; a token minted after the revocation on the same instance is valid. A
// token that claims to be issued in the future counts as old.
//
// # Lifecycle
//
// Call [Service.Load] before serving, then run the workers. Nothing is lost when
// they end.
package revoke
