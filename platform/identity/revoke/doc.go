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
// check costs two map lookups. Every half second it reads from Postgres the rows
// that its last read did not return, on one connection that it keeps. [Service.Tell]
// asks for such a read at once, so that an ended login is refused by the instance
// that ended it when the request is answered.
//
// While Postgres is away, the instance answers from memory: nothing can be revoked
// meanwhile. An instance that has lost Postgres alone may admit a token that another
// one has revoked, until the token expires or Postgres is back. Before its first
// read an instance refuses every token with 503.
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
