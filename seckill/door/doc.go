// Package door decides who gets a rush path. It puts the checks in their order and
// is rush.Deps' Admit and OverLimit:
//
//	blacklist, rules   risk          reads memory
//	reservation        reservation   memory, else one question for many
//	human check        human.go      as the item's activity asks
//	participation      risk          takes a claim
//
// What reads memory goes first. The claim goes last, because it takes something
// that comes back later than the others refuse. A refusal by any of them counts
// for the rules of the kind refusals_per_minute.
//
// # The human check
//
// Challenges are made and judged by platform/identity/humancheck; what an activity
// asks for is in the catalogue. Here is which one an item asks for, the route where
// shoppers get something to solve, and the worker that has slide pictures drawn
// before a crowd needs them.
//
// A check is asked for in two cases. An activity may ask everybody (none, a proof
// of work, a slide, an outside verifier); a proof of work can be done ahead, with
// the reservation, and is then not asked for again. And it may ask whoever wants
// more paths a minute than its rate says: that second check is a stronger one and
// takes the place of the first.
//
// # Lifecycle
//
// New reads nothing. Load takes the first look at what keeps people out; call it
// before serving.
package door
