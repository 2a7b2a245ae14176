// Package credential is the ways into an account: password, phone and WeChat, how they are
// added and changed, and the erasure that they prove.
//
// A user is identified by a phone, by a WeChat account, or by both; the second can be added
// later. A password is a third way to log in for users with a phone.
//
//   - One phone, one account; one WeChat account, one account. The database enforces
//     this, and the second of two concurrent requests finds the first one's account.
//   - A stranger cannot learn whether a phone has an account: the answers and the
//     work are the same. The answers that reveal it (phone-taken, phone-unknown,
//     disabled) require the code or the password first.
//   - A WeChat code that came through a URL is accepted only from the client that asked
//     for it: with a state that is bound to its cookie, once, within ten minutes.
//   - A password change ends the other logins; a reset ends all.
//
// A flood of logins takes no more memory than the password hashes that may run
// concurrently; see package password.
package credential
