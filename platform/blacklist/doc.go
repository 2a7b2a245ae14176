// Package blacklist keeps the users, phones, addresses and devices that may not
// take part in a sale, each with a reason and, mostly, an end.
//
// Postgres has the list (platform.blacklist); every instance has all of it in
// memory, as one immutable picture, so that asking costs a map lookup and never
// a query. A change raises a revision in its own transaction and is broadcast
// after the commit; an instance that misses the broadcast finds the revision
// within half a second. Entries end by the clock, without anybody's doing.
// While Postgres is away, the last picture stays in force.
//
// Whoever is refused because of an entry is told no more than that the item is
// not available: a list that answers questions teaches its way around.
package blacklist
