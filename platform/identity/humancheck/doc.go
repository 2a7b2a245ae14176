// Package humancheck makes a client that requests something scarce spend something
// first: computing time, a person's attention to a picture, or the verdict of a
// service that judges browsers. Callers decide who must be checked.
//
// # Challenge and solution
//
// A client gets a Challenge, solves it and sends the solution in the header
// Human-Check with the request that requires it:
//
//	pow:<challenge>.<nonce>       proof of work: SHA-256 of what follows "pow:" begins with `difficulty` zero bits
//	slide:<challenge>.<x>.<drag>  slide captcha: where the tile's left edge belongs, in pixels of the picture,
//	                              and how it moved there: <ms>,<x>;<ms>,<x>;…
//	verifier:<token>              the token that the verifier's widget gave to the page (siteverify), or
//	                              <ticket>.<answer>: the challenge's ticket, and what the widget gave, as
//	                              JSON in base64url (GeeTest, Tencent Cloud, Aliyun)
//
// A challenge is a ticket: its purpose, subject and expiry, signed with a separate
// key that is derived from the process's signing key. Issuing a proof of work or a
// verifier's challenge stores nothing, so that requests for challenges cannot fill
// any store. A siteverify provider carries the ticket as customer data and returns it with
// its verdict, which binds a token to user, item and purpose. The others carry nothing of
// the shop's: the ticket comes with the token, and says who may send it, but a token that
// was solved for one ticket can be sent with another.
//
// # Invariants
//
//   - A solution is valid once. It is checked in this order: signature, subject,
//     expiry, work, and only then Redis: SET NX on the ticket's id, or GETDEL of the
//     slide's answer. Data that a client made up never reaches Redis.
//   - What a widget gave is valid once, whatever ticket it comes with: the provider refuses
//     it a second time, and the shop remembers it for half an hour.
//   - What a client can bring about at a provider is a refusal of its token. Only what it
//     cannot bring about is an outage, because an outage may replace the verifier. So a
//     ticket of Tencent Cloud that begins with trerror_, which its widget makes up when it
//     reaches nobody, is refused under both rules; during an outage that the shop saw, the
//     refusal brings the proof of work.
//   - A solution is valid for its subject only: user, item and purpose, and before a
//     login the client's address (an IPv6 address counts as its /64). A logged-in
//     user's address is not part of it, because phones change theirs.
//   - A slide fails, whatever its x, if no person can have moved the tile that way:
//     faster than 200 ms or than the time since its challenge, exactly linear, or
//     without a drag. Each failure of a user or an address narrows the tolerance for
//     ten minutes by a pixel, down to two.
//   - A check that cannot be made fails: without Redis, and without the verifier
//     under the rule "refuse", the answer is 503. Under the rule "pow" a proof of
//     work replaces the verifier. Its ticket says so and is issued only when the
//     verifier has just failed, so any instance may accept it.
//
// # What each kind is worth
//
// A proof of work costs the client time but does not stop programs; a difficulty of
// 18 is 262,144 hashes on average, about 0.2 s in a desktop browser, up to 1 s on a
// phone and 0.05 s in a native program. A slide stops programs that were not written
// for it, and no others: it shows a decoy beside the tile's gap, and a program that
// finds their outlines and compares what they show with the tile, eighty lines without
// machine learning, is right four times of five, in milliseconds
// (TestAttackSlideSolver); its drag can be forged. Pictures that misled such a program
// more misled people as much. A slide is a nuisance for people and a signal, no proof
// of one. A verifier is worth as much as its provider, and is what a shop with
// something scarce should use.
//
// # Size
//
// The package has more than 2,000 lines because four verifiers, the slide and the proof of
// work share tickets, subjects and the rule that a solution is valid once; in packages of
// their own they would export those.
//
// # Lifecycle
//
// Service has one worker, which draws slide pictures in advance (about 15 ms of CPU
// each) from the first request for one, or from Prepare. It spends at most a quarter
// of a core while pictures are in stock, and one full core when shoppers wait: about
// 60 pictures a second. That is the limit of this kind; for a large crowd use the
// proof of work.
package humancheck
