// Package door decides who gets a rush path. It runs the checks in order and is
// rush.Deps' Admit:
//
//	blacklist, rules   risk          reads memory
//	reservation        reservation   memory, else one question for many
//	human check        human.go      as the item's activity asks
//	participation      risk          takes a claim
//
// Checks that read memory go first. The claim goes last, because the user keeps
// it for longer than the other checks refuse.
//
// # The human check
//
// platform/identity/humancheck makes and verifies challenges; the catalogue has
// what an activity requires. This package chooses the challenge for an item, serves
// the route where shoppers get it, and runs the worker that draws slide pictures
// before a crowd needs them.
//
// A check is required in three cases. An activity may require it of every shopper
// (none, a proof of work, a slide, an outside verifier); a proof of work can be
// done ahead, with the reservation, and is then not required again. An
// activity may require it of users who request more paths a minute than its rate:
// that second check is stronger and replaces the first. And the shop requires a proof
// of work, or a harder one, of users beyond the budget of their address's networks
// for the item, unless the activity requires a slide or a verifier, which has no
// harder form; the users are counted in memory.
//
// # Lifecycle
//
// New reads nothing. Load reads the blacklist and the rules for the first time;
// call it before serving.
package door
