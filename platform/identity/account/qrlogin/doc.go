// Package qrlogin logs a device in with a QR code that a logged-in phone scans.
//
// # The flow
//
//	desktop  POST auth/qr                 → id, poll secret, picture with the id
//	phone    POST auth/qr/{id}/scan       → the asking device, its address and time; a scan token
//	desktop  GET  auth/qr/{id}            with the poll secret → scanned, and a number to show
//	phone    POST auth/qr/{id}/confirm    with scan token, number and refresh token; or deny
//	desktop  GET  auth/qr/{id}            with the poll secret → confirmed and the tokens, once
//
// # Owns
//
// Table auth.qr_logins: pending → scanned → confirmed → claimed, or denied after the
// scan; a login that is not claimed in time has expired. Each arrow is one
// conditional UPDATE, so that of two concurrent requests one succeeds, on any
// instance.
//
// # Invariants
//
//   - The id, which the picture shows to every viewer, gives no access: the tokens
//     go to the holder of the poll secret, which the picture does not show, and only
//     once.
//   - Only the user who scanned may confirm or deny, in the same login, with the
//     scan token. So a user cannot approve a device that was not shown to them.
//   - A confirmation needs the confirming login's refresh token: an access token,
//     which travels with every request and lives for minutes, must not become a login
//     of weeks. It also needs the number that the asking device shows, with one
//     attempt, so that a user confirms the device that is in front of them and not
//     one whose code was sent to them.
//   - A confirmation ends with the login that gave it: no tokens are issued if that
//     login was ended in the meantime, and the new login ends with it later.
//   - The new login is bound to the asking device, as it described itself.
//   - Secrets are 256 random bits and stored as SHA-256. An unknown id and a wrong
//     secret get the same answer.
//
// # Polls
//
// A poll is answered at once; the asking device repeats it after poll_after_ms. A crowd
// of desktops costs one read of a row each second, and no instance has to learn of a
// change on another.
package qrlogin
