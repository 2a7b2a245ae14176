// Package humancheck makes whoever asks for something scarce show that it costs
// them something: computing time, a look at a picture, or the word of a service
// that judges browsers. It decides nothing about who must be checked; callers do.
//
// # Challenge and solution
//
// A client gets a Challenge, solves it and sends the solution in the header
// Human-Check along with the request that asks for one:
//
//	pow:<challenge>.<nonce>   proof of work: SHA-256 of what follows "pow:" begins with `difficulty` zero bits
//	slide:<challenge>.<x>     slide captcha: where the tile's left edge belongs, in pixels of the picture
//	verifier:<token>          the token that the verifier's widget gave to the page
//
// A challenge is a ticket: what it is for, for whom and until when, signed with a
// key of its own that is derived from the process's signing key. Nothing is stored
// when a proof of work or a verifier's challenge is handed out, so that asking for
// challenges cannot fill anything. The verifier carries the ticket as customer data
// and gives it back with its verdict, which binds a token to user, item and purpose.
//
// # Invariants
//
//   - A solution is good once. The order of the questions is signature, subject,
//     expiry, work, and only then Redis: SET NX on the ticket's id, or GETDEL of the
//     slide's answer. Whatever the client made up never reaches Redis.
//   - A solution is good for its subject only: user, item and purpose, and while
//     nobody is logged in the client's address (an IPv6 address counts as its /64).
//     A logged-in user's address is not part of it, because phones change theirs.
//   - A check that cannot be made is not passed: without Redis, and without the
//     verifier under the rule "refuse", the answer is 503. Under the rule "pow" a
//     proof of work stands in for the verifier. Its ticket says so and is made only
//     when the verifier has just failed, so any instance may accept it.
//
// # What each kind is worth
//
// A proof of work makes attempts cost the asker time and hides nothing from
// programs; a difficulty of 18 is 262,144 hashes on average, about 0.2 s in a
// desktop's browser, up to 1 s on a phone and 0.05 s for a native program. Slide
// pictures stop programs that were not written for them; a guess hits with a
// probability of about (2·tolerance+1)/156. A verifier is worth what its provider is.
//
// # Lifecycle
//
// Service has one worker, which draws slide pictures ahead (about 15 ms of CPU each)
// from the first time that anybody wants one or Prepare is called. It spends at most
// a quarter of a core while pictures are left, all of one core when shoppers wait:
// about 60 a second. That is the bound of this kind; for a large crowd at once take
// the proof of work.
package humancheck
