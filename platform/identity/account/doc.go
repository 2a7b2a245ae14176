// Package account manages users, their credentials and their logins.
//
// # What it owns
//
// Schema account: users, their WeChat identities, SMS codes, logins, secrets of second factors. A user is
// identified by a phone, by a WeChat account, or by both; the second can be added
// later. A password is a third way to log in for users with a phone. Access tokens
// belong to platform/edge/auth, and ending them before they expire to
// platform/identity/revoke; this package decides when.
//
// # Logins and tokens
//
// A login is one user on one device. It issues an access token, which is short-lived
// and checked without any store, and a refresh token, which is valid for one use, at
// Refresh only. Refresh tokens are numbered within their login and computed from it
// (see keys.go): the contents of the database do not suffice to make one.
//
// A refresh token that arrives twice may come from a shopper whose answer was lost,
// or from a thief. Within 10 s, and while the successor is unused, it gets that same
// successor: a lost answer logs no shopper out, and concurrent repeats share one
// successor. Otherwise the login ends, for both of them.
//
// # Invariants
//
//   - One phone, one account; one WeChat account, one account. The database enforces
//     this, and the second of two concurrent requests finds the first one's account.
//   - A code is used once and for its purpose, within five minutes and five
//     attempts, which strangers do not use up. It is stored as an HMAC.
//   - A stranger cannot learn whether a phone has an account: the answers and the
//     work are the same. The answers that reveal it (phone-taken, phone-unknown,
//     disabled) require the code or the password first.
//   - A WeChat code that came through a URL is accepted only from the client that asked
//     for it: with a state that is bound to its cookie, once, within ten minutes.
//   - A login that another one confirmed, by QR code, ends when that one is ended: by
//     logout, by the user or an operator, or because its refresh token was copied. A
//     login that is pushed out by newer ones has none left that it confirmed.
//   - An admin's tokens have the role shopper until the admin has a second factor
//     (Settings.AdminWithoutTOTP lifts this for practice). Any user may have one; then
//     every login needs its code, and adding it ends all logins but the one that did.
//   - A password change ends the other logins; a reset and a disabling end all. A
//     login that is being opened at the same time is either ended or refused: both
//     take the user's row lock.
//   - At least one active admin remains, however many remove each other concurrently.
//   - The first admin comes by the phone in the settings, or by the secret of a link that
//     a start prints; it is derived from the signing key, valid for 24 hours and until
//     there is an admin, and opens no account that exists.
//   - No phone, name, code, password, token or openid is logged, put into an
//     error, or written to Redis.
//
// Locks are taken in this order: a code's row, WeChat identity, user, login, the
// admins' advisory lock. A deadlock with an erasure, which deletes codes last, is
// possible; pg.InTx retries it.
//
// # At the door
//
// The blacklist (platform/identity/blacklist) is checked first, by phone, device and
// address; by user it is checked once the user is authenticated. Then every attempt
// passes limits by phone and address (platform/edge/ratelimit) and a human check
// (platform/identity/humancheck): for every code, and for the other attempts when the
// record of failures, codes and registrations exceeds a budget (record.go). Its work
// doubles as the record does. An address's record is that of its networks, up to an
// IPv6 /48; this machine and trusted proxies have none.
// What strangers do with a phone's number locks its holder out neither of password nor
// of code: attempts count per phone and address, codes per purpose, and a device that
// the user has logged in on before has limits of its own.
//
// A device is proved by its signed cookie (httpx.DeviceCookie), which codes and logins
// set. It has a record and these limits. The device id that a client states is a label:
// it binds refreshes, names the device in lists, in tokens and on the blacklist, and a
// client that wants another one states another one. Only the note about a new device
// relies on it, because an app without cookies would cause one at each login.
//
// The whole shop sends Limits.SMSPerHour at most, notes included; when a flood has used
// that up, staff still get login codes, and the answers do not reveal their phones
// (ceiling.go).
// Redis stores phones only as keyed hashes. A flood of logins takes no more memory
// than the password hashes that may run concurrently; see package password.
//
// # Lifecycle
//
// New, Routes, Workers. One worker deletes old codes and logins, the other sends an SMS
// to a user whose account was logged in to on a new device, or whose password, ways to
// log in, role or second factor were changed; every instance may run them. The same
// changes are listed at me/notices for 30 days, for users without a phone too.
package account
