// Package account keeps who may log in, and where they are logged in.
//
// # What it owns
//
// Schema account: users, their WeChat identities, SMS codes, logins. A user is
// known by a phone, by a WeChat account, or by both, of which the second can be
// added later; a password is a third way in for those with a phone. Access tokens
// are platform/edge/auth's, and ending them before they expire is
// platform/identity/revoke's; this package says when.
//
// # Logins and tokens
//
// A login is one user on one device. It hands out an access token, short and
// checked without any store, and a refresh token, good for one use, at Refresh
// and nowhere else. Refresh tokens are numbered within their login and computed
// from it (see keys.go): what the database alone holds makes none.
//
// A refresh token that comes twice may be a shopper whose answer was lost, or a
// thief. Within 10 s, and while the successor is unused, it gets that same
// successor: a lost answer logs nobody out, and however many come at once, there
// is one successor. Otherwise the login ends, for both of them.
//
// # Invariants
//
//   - One phone, one account; one WeChat account, one account. The database says
//     so, and whoever comes second at the same moment finds the first.
//   - A code is used once and for its purpose, within five minutes and five
//     attempts. It is stored as an HMAC.
//   - Nothing tells a stranger whether a phone has an account: answers are the
//     same and the work is. What tells it (phone-taken, phone-unknown, disabled)
//     is told to whoever has shown the code or the password.
//   - A password change ends the other logins, a reset and a disabling end all,
//     and a login that is being opened meanwhile is either ended or refused: both
//     take the user's row lock.
//   - An active admin remains, however many take each other away at once.
//   - No phone, name, code, password, token or openid is logged, put into an
//     error, or written to Redis.
//
// Locks are taken in this order: a code's row, WeChat identity, user, login, the
// admins' advisory lock. A deadlock with an erasure, which deletes codes last, is
// possible and is run again by pg.InTx.
//
// # At the door
//
// Before each try stand limits (platform/edge/ratelimit) by phone and address; above
// counts of failures, codes and registrations a human check
// (platform/identity/humancheck). Before all of them stands the list of whom the shop keeps
// out (platform/identity/blacklist), by phone, device and address; by user it is asked once
// it is proved who comes. Phones stand in Redis as keyed hashes only. A flood of
// logins takes as much memory as password hashes may run at once; see package
// password.
//
// # Lifecycle
//
// New, Routes, Workers. The one worker deletes old codes and logins; every
// instance may run it.
package account
