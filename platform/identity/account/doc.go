// Package account keeps the rows of users, their credentials and their logins; the packages
// below it change them, each with its routes.
//
//	guard       whether an attempt may be made: blacklist, limits, human checks
//	code        codes and notes by SMS, and the shop's ceiling of SMS
//	factor      second factors and recovery codes
//	login       logins and their tokens: open, refresh, list, end
//	credential  the ways in: password, phone, WeChat; the user's own account; erasure
//	qrlogin     logins that a QR code and a logged-in phone open
//	staff       what operators see and change; the first admin
//
// # What it owns
//
// Schema account: users, their WeChat identities, SMS codes, logins, secrets of second
// factors, notices. Access tokens belong to platform/edge/auth, and ending them before they
// expire to platform/identity/revoke; these packages decide when. A new account is an event,
// see accountevent.
//
// # Invariants
//
//   - No phone, name, code, password, token or openid is logged, put into an
//     error, or written to Redis.
//   - A disabling ends all logins, and so does an erasure.
//   - A message tells users of new devices and of changes to their passwords, ways to log in, roles
//     and second factors: by SMS, and at me/notices for 30 days.
//
// Locks are taken in this order: a code's row, WeChat identity, user, login, the
// admins' advisory lock. A deadlock with an erasure, which deletes codes last, is
// possible; pg.InTx retries it.
//
// # Lifecycle
//
// platform/identity builds the parts, the erasure last. Store's worker deletes old codes,
// logins and notices, that of package code sends notes; every instance may run them.
package account
