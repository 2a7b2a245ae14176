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
// Whoever is listed gets no rush path, does not log in, refresh or scan a QR login,
// and is sent no code, but for erasing the account. They are told no more than that
// the item is not available or that they cannot log in: a list that answers
// questions teaches its way around. Tokens that are out already live on for their
// quarter of an hour, in which the door before the rush refuses.
package blacklist
