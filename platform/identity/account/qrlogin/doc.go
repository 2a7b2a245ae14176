// Package qrlogin logs a device in by a code that a logged-in phone scans.
//
// # The way
//
//	desktop  POST auth/qr                 → id, poll secret, picture with the id
//	phone    POST auth/qr/{id}/scan       → which device asks, from where, since when; a scan token
//	phone    POST auth/qr/{id}/confirm    with the scan token; or deny
//	desktop  GET  auth/qr/{id}            with the poll secret → confirmed and the tokens, once
//
// # Owns
//
// Table auth.qr_logins: pending → scanned → confirmed → claimed, or denied after
// the scan; whatever is not claimed in time has expired. Each arrow is one
// conditional UPDATE, so that of two who are at it at once one succeeds, on
// whatever instance.
//
// # Invariants
//
//   - The id, which the picture shows to everybody who looks, is worth nothing by
//     itself: what is claimed goes to the holder of the poll secret, which the
//     picture does not show, and never twice.
//   - Only who scanned may confirm or deny: the same user, in the same login, with
//     the scan token. So nobody agrees to a device that they were not shown.
//   - A confirmation ends with the login that gave it: tokens are not handed out
//     when that login was ended meanwhile.
//   - The new login is on the device that asked, as it described itself then.
//   - Secrets are 256 random bits and stored as SHA-256. An id that does not exist
//     and a secret that does not fit get the same answer.
//
// # Waiting
//
// A poll may wait for a change. Changes are broadcast and wake the polls on every
// instance; a lost broadcast costs [Config.RecheckEvery]. [Service.Stop] lets all of them
// go, so that they do not hold up the end of a process.
package qrlogin
