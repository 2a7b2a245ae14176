// Package blacklist keeps the users, phones, addresses and devices that may not take
// part in a sale, each with a reason and usually an end.
//
// Postgres stores the list (platform.blacklist). Every instance keeps all of it in
// memory as an immutable snapshot, so that a check costs a map lookup and never a
// query. A change raises a revision in the same transaction and is broadcast after
// the commit; an instance that misses the broadcast finds the revision within half a
// second. Entries end by the clock, without any action. While Postgres is down, the
// last snapshot stays in force.
//
// The snapshot also has the users of disabled accounts: the writer of orders asks for
// both, so that neither wins with a path that was issued before.
//
// The listing of a user who deletes the account goes over to the phone, for as long.
//
// A listed user gets no rush path, cannot log in, refresh or scan a QR login, and
// receives no code except for erasing the account. The answer says only that the
// item is not available or that the login is refused: a more precise answer would
// help to get around the list. Access tokens issued before the listing stay valid
// until they expire, but the door in front of the rush refuses them, the writer
// refuses their grants, and the routes of the staff refuse a listed user or device. A
// listed address does not shut the staff out: a range may cover the shop's own office.
package blacklist
