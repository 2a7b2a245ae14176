// Package challenge is the human check before the rush paths: which one an item
// asks for, the check itself as rush.DoorCheck, the route where shoppers get
// something to solve, and the worker that has slide pictures drawn before a crowd
// needs them. Challenges are made and judged by platform/humancheck; what an
// activity asks for is in the catalogue. The package keeps nothing.
//
// A check is asked for in two cases. An activity may ask everybody (none, a proof
// of work, a slide, an outside verifier); a proof of work can be done ahead, with
// the reservation, and is then not asked for again. And it may ask whoever wants
// more paths a minute than its rate says: that second check is a stronger one and
// takes the place of the first.
package challenge
